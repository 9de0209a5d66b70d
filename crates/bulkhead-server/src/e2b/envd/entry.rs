//! A file as E2B's clients see it.

use std::time::{Duration, UNIX_EPOCH};

use bulkhead_engine::rooms::tree::{Facts, Kind};
use serde_json::{Value, json};

use crate::clock::rfc3339;

/// Where relative paths begin.
pub(super) const HOME: &str = "/home/user";

/// How the names begin under which clients note something beside files.
pub(super) const NOTED: &str = "user.e2b.";

/// What clients noted beside a file, if they did.
pub(super) fn metadata(notes: &[(Vec<u8>, Vec<u8>)]) -> Option<Value> {
    let ours = notes.iter().filter_map(|(name, value)| {
        let name = std::str::from_utf8(name).ok()?.strip_prefix(NOTED)?;
        Some((name.to_owned(), Value::from(String::from_utf8_lossy(value))))
    });
    let ours: serde_json::Map<String, Value> = ours.collect();
    (!ours.is_empty()).then_some(Value::Object(ours))
}

/// A path as the room sees it: from the home directory if it does not say otherwise.
pub(crate) fn absolute(path: &str) -> String {
    let below = path.strip_prefix("~/").or((path == "~" || path.is_empty()).then_some(""));
    let whole = match below {
        Some(below) => format!("{HOME}/{below}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{HOME}/{path}"),
    };
    // Without double slashes, dots and climbing, as the clients show it.
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Everything about what is at `path`. `target` is what a link leads to.
pub(super) fn entry(path: &str, facts: &Facts, target: Option<&Facts>) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    let shown = target.unwrap_or(facts);
    let (seconds, nanos) = shown.modified;
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    let mut object = json!({
        "name": name,
        "type": kind(shown.kind),
        "path": path,
        "size": shown.size.to_string(),
        "mode": shown.mode & 0o777,
        "permissions": permissions(shown.kind, shown.mode),
        "owner": owner(shown.owner.0),
        "group": owner(shown.owner.1),
        "modifiedTime": rfc3339(UNIX_EPOCH + since),
    });
    if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata(&shown.notes)) {
        object.insert("metadata".to_owned(), metadata);
    }
    if let (Some(object), Some(target)) = (object.as_object_mut(), &facts.target) {
        let target = String::from_utf8_lossy(target);
        let target = if target.starts_with('/') {
            target.into_owned()
        } else {
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            absolute(&format!("{dir}/{target}"))
        };
        object.insert("symlinkTarget".to_owned(), target.into());
        object.insert("isSymlink".to_owned(), true.into());
    }
    object
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Dir => "FILE_TYPE_DIRECTORY",
        Kind::Link => "FILE_TYPE_SYMLINK",
        Kind::File | Kind::Fifo | Kind::Socket | Kind::Device => "FILE_TYPE_FILE",
    }
}

/// A room has one user.
fn owner(id: u32) -> String {
    match id {
        0 => "root".to_owned(),
        1000 => "user".to_owned(),
        other => other.to_string(),
    }
}

/// `drwxr-xr-x`
fn permissions(kind: Kind, mode: u32) -> String {
    let first = match kind {
        Kind::Dir => 'd',
        Kind::Link => 'L',
        Kind::File | Kind::Fifo | Kind::Socket | Kind::Device => '-',
    };
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let bits = bits.map(|(bit, letter)| if mode >> bit & 1 == 1 { letter } else { '-' });
    std::iter::once(first).chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_home_and_do_not_climb_out_of_the_root() {
        for (path, whole) in [
            ("a/b", "/home/user/a/b"),
            ("~/x", "/home/user/x"),
            ("~", "/home/user"),
            ("/a//b/./c/../d", "/a/b/d"),
            ("/../..", "/"),
        ] {
            assert_eq!(absolute(path), whole);
        }
    }

    #[test]
    fn permissions_read_like_those_of_ls() {
        assert_eq!(permissions(Kind::Dir, 0o755), "drwxr-xr-x");
        assert_eq!(permissions(Kind::File, 0o640), "-rw-r-----");
    }
}
