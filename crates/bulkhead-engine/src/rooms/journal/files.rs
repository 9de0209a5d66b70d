//! Files of the journal: whole or not there, and on the disk when it says so.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bulkhead_backends::crash;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::Serialize;

use super::record::RECORD;
use crate::rooms::layers;

pub(in crate::rooms) fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// What is locked of `dir`: the directory itself, so that nothing must be made for it.
pub(super) fn lock_of(dir: &Path) -> io::Result<File> {
    File::open(dir)
}

/// Whether nobody else holds `lock`, which is held now. Those who only look whether it is held hold
/// it for a moment themselves.
pub(super) fn hold_alone(lock: &File) -> io::Result<bool> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(2)),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// When what is written must be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// At once.
    Each,
    /// When all of it is written; somebody else sees to it.
    Together,
}

/// Either the whole file is there afterwards, or what was there before.
pub(in crate::rooms) fn write_whole<T: Serialize>(
    dir: &Path,
    name: &str,
    what: &T,
) -> io::Result<()> {
    write(dir, name, what, Sync::Each)?;
    File::open(dir)?.sync_all()
}

pub(super) fn write<T: Serialize>(
    dir: &Path,
    name: &str,
    what: &T,
    sync: Sync,
) -> io::Result<()> {
    let fresh = dir.join(format!("{name}.new"));
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(what)?)?;
    if sync == Sync::Each {
        file.sync_all()?;
    }
    crash::point();
    fs::rename(&fresh, dir.join(name))
}

pub(in crate::rooms) fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_absent(fs::remove_file(path))
}

/// Removes the directory of a room: its record first, so that nobody finds half of it.
pub(super) fn erase(dir: &Path) -> io::Result<()> {
    remove_if_there(&dir.join(RECORD))?;
    crash::point();
    // What rooms keep may have permissions that forbid to look.
    layers::remove_tree(dir)
}

fn unless_absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(in crate::rooms) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
