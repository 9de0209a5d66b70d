//! Files that usually hold secrets.

use std::path::{Path, PathBuf};

use bulkhead_linux::listing::entries;
use bulkhead_policy::holds_secrets;
use rustix::fs::FileType;

use super::{How, Protection};

/// How deep below the workspace they are looked for, and how many entries are looked at: a start
/// must not take longer because a project is large.
const DEPTH: usize = 3;
const ENTRIES: usize = 20_000;

/// Directories that are large and hold other people's files.
const SKIPPED: [&[u8]; 6] =
    [b".git", b"node_modules", b"target", b".venv", b"venv", b"__pycache__"];

pub(super) fn hide(dir: &Path, protections: &mut Vec<Protection>) {
    let mut left = ENTRIES;
    walk(dir, dir, DEPTH, &mut left, protections);
}

/// What cannot be read by us cannot be read inside either.
fn walk(
    top: &Path,
    dir: &Path,
    depth: usize,
    left: &mut usize,
    protections: &mut Vec<Protection>,
) {
    let Ok(entries) = entries(dir) else { return };
    for entry in entries {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let name = entry.name.as_encoded_bytes();
        if entry.kind == FileType::RegularFile && holds_secrets(name) {
            protections.push(Protection { path: entry.path(dir), how: How::Hidden });
        } else if entry.kind == FileType::Symlink && holds_secrets(name) {
            let behind = behind(top, &entry.path(dir));
            protections.extend(behind.map(|path| Protection { path, how: How::Hidden }));
        } else if entry.kind == FileType::Directory && 0 < depth && !SKIPPED.contains(&name) {
            walk(top, &entry.path(dir), depth - 1, left, protections);
        }
    }
}

/// The file below `top` that a link leads to. One elsewhere is not to be seen anyway.
fn behind(top: &Path, link: &Path) -> Option<PathBuf> {
    let file = link.canonicalize().ok().filter(|it| it.is_file())?;
    let below = file.strip_prefix(top.canonicalize().ok()?).ok()?.to_owned();
    Some(top.join(below))
}
