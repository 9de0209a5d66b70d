//! Files that a template is built with.

use bulkhead_engine::rooms::{Client, tree::Put};
use tokio::io::AsyncReadExt as _;

use super::quoted;
use crate::house::House;

/// Where the archive is, in the room.
const ARCHIVE: &str = "/tmp/.bulkhead-copy";

/// Puts the archive of that hash into the room.
pub(super) async fn put(house: &House, client: &Client, hash: &str) -> Result<(), String> {
    let file = house.archive(hash).ok_or("the files have no hash")?;
    let failed = |error: &dyn std::fmt::Display| format!("the files were not copied: {error}");
    let mut file = tokio::fs::File::open(file).await.map_err(|error| failed(&error))?;
    let upload = client.write(ARCHIVE.as_bytes(), Put::Replace, Some(0o600)).await;
    let mut upload = upload.map_err(|error| failed(&error))?;
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut chunk).await.map_err(|error| failed(&error))?;
        let bytes = chunk.get(..count).unwrap_or_default();
        if count == 0 || upload.write(bytes).await.is_err() {
            break;
        }
    }
    upload.finish().await.map_err(|error| failed(&error))
}

/// The line of shell that unpacks the archive and puts `src` of it to `dest`, as `COPY` of a
/// Dockerfile does. All of it happens in the room.
pub(super) fn line(src: &str, dest: &str, mode: &str) -> Result<String, String> {
    if !mode.is_empty() && !mode.bytes().all(|it| (b'0'..b'8').contains(&it)) {
        return Err(format!("`{mode}` is not a mode"));
    }
    let into = if dest.ends_with('/') { "yes" } else { "no" };
    let src = src.trim_start_matches("./").trim_start_matches('/');
    let src = if src.is_empty() { "." } else { src };
    // The source may be a pattern, so it is quoted but for its stars.
    let pattern: Vec<_> = src.split('*').map(quoted).collect();
    let pattern = pattern.join("*");
    let dest = quoted(dest);
    let chmod = if mode.is_empty() { ":".to_owned() } else { format!("chmod -R {mode}") };
    Ok(format!(
        "set -e; t=$(mktemp -d); trap 'rm -rf \"$t\" {ARCHIVE}' EXIT; \
         tar -xf {ARCHIVE} -C \"$t\"; cd \"$t\"; set -- {pattern}; \
         for s in \"$@\"; do \
           if [ -d \"$s\" ]; then mkdir -p {dest}; {chmod} \"$s\"; cp -a \"$s\"/. {dest}/; \
           elif [ {into} = yes ] || [ $# -gt 1 ] || [ -d {dest} ]; then \
             mkdir -p {dest}; {chmod} \"$s\"; cp -a \"$s\" {dest}/; \
           else mkdir -p \"$(dirname {dest})\"; {chmod} \"$s\"; cp -a \"$s\" {dest}; fi; \
         done"
    ))
}
