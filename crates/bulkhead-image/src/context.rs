//! What a builder gets to see of a project: the files that its Dockerfile copies, and no others.
//!
//! Invariant: the same content gives the same bytes: sorted, owned by nobody in particular, with
//! one fixed time.

use std::{
    collections::BTreeSet,
    fs, io,
    io::Read as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tar::{Builder, EntryType, Header};

use crate::{
    EPOCH,
    ignore::{Ignore, matches_it_or_above},
};

/// More than that is sent to no builder.
const MOST: u64 = 1 << 30;
/// What the Dockerfile is called in a context; nobody's own file is called so.
pub(crate) const DOCKERFILE: &str = ".bulkhead.Dockerfile";

/// The content of a build, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// A tar archive.
    pub(crate) bytes: Vec<u8>,
    /// How many files are in it.
    pub(crate) files: usize,
}

impl Context {
    /// Packs `dockerfile` and what of `dir` it copies, by its patterns `sources`.
    pub(crate) fn pack(
        dir: &Path,
        dockerfile: &str,
        sources: &BTreeSet<String>,
        ignore: &Ignore,
    ) -> io::Result<Self> {
        let mut paths = BTreeSet::new();
        if !sources.is_empty() {
            walk(dir, "", &mut paths)?;
        }
        let wanted = |path: &String| {
            !ignore.leaves_out(path) && sources.iter().any(|source| is_copied(source, path))
        };
        let mut builder = Builder::new(Vec::new());
        let mut files = 0;
        let mut size = 0;
        for path in paths.iter().filter(|it| wanted(it)) {
            size += append(&mut builder, &dir.join(path), path)?;
            files += 1;
            if size > MOST {
                let why = "the files that the build copies are more than 1 GiB; leave some out \
                           with .dockerignore";
                return Err(io::Error::other(why));
            }
        }
        // The builder reads both and leaves them out of what it copies.
        let hidden = format!("{DOCKERFILE}\n.dockerignore\n");
        for (name, text) in [(".dockerignore", hidden.as_str()), (DOCKERFILE, dockerfile)] {
            let mut header = header(EntryType::Regular, 0o644);
            header.set_size(text.len().try_into().unwrap_or(u64::MAX));
            builder.append_data(&mut header, name, text.as_bytes())?;
        }
        Ok(Self { bytes: builder.into_inner()?, files })
    }
}

/// Whether `COPY source` takes the file at `path`.
fn is_copied(source: &str, path: &str) -> bool {
    let source = source.trim_start_matches("./").trim_matches('/');
    source.is_empty() || source == "." || matches_it_or_above(source, path)
}

/// All files and links below `dir`. Directories are there for what is in them; `.dockerignore`
/// at the top is replaced.
fn walk(dir: &Path, prefix: &str, paths: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            let path = bulkhead_spec::escape_bytes(entry.path().as_os_str().as_encoded_bytes());
            return Err(io::Error::other(format!("the name `{path}` is not UTF-8")));
        };
        let path = format!("{prefix}{name}");
        // Neither does any image need these, nor are they small.
        if matches!(path.as_str(), ".git" | ".dockerignore" | DOCKERFILE) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), paths)?;
        } else if kind.is_file() || kind.is_symlink() {
            paths.insert(path);
        }
    }
    Ok(())
}

fn append(builder: &mut Builder<Vec<u8>>, at: &Path, path: &str) -> io::Result<u64> {
    let found = at.symlink_metadata()?;
    if found.is_symlink() {
        let target: PathBuf = fs::read_link(at)?;
        let mut header = header(EntryType::Symlink, 0o777);
        header.set_size(0);
        builder.append_link(&mut header, path, target)?;
        return Ok(0);
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(at)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let size = bytes.len().try_into().unwrap_or(u64::MAX);
    // Whether it can be executed is content; who else may read it is a matter of the host.
    let mode = if found.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
    let mut header = header(EntryType::Regular, mode);
    header.set_size(size);
    builder.append_data(&mut header, path, bytes.as_slice())?;
    Ok(size)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(EPOCH);
    header
}
