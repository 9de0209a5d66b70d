//! Stand-ins for files that must not be made.
//!
//! A name can be kept from being made only by mounting something on it, and a mount needs something
//! to lie on. So for the time of a run an empty directory stands where the file would be. Being an
//! empty directory it does not show up in git, and removing it can never remove anything else.
//!
//! Invariant: a stand-in can be told from anything that a person would make (permissions, time), so
//! the next start removes it safely if we were killed; it is locked while a sandbox needs it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, OFlags, Timespec, Timestamps, flock, utimensat,
};

use super::{
    protect::{How, Protection},
    survey::path_of,
};

/// The permissions and the time by which we know our own.
const DIR_MODE: u32 = 0o1500;
const FILE_MODE: u32 = 0o444;
const TIME: i64 = 315_532_842;
/// What stands for an absent `commondir`: git reads it as "here".
const COMMON_DIR: &[u8] = b".\n";

/// The stand-ins of one sandbox. Dropping it removes those that no other sandbox needs.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    held: Vec<Held>,
    record: Option<Record>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    lock: File,
    how: How,
}

/// Where the next start finds what we made, should we be killed.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    _lock: File,
}

impl Placeholders {
    /// Puts a stand-in in place of everything among `protections` that is absent.
    ///
    /// Where we cannot write, the sandbox cannot either, and nothing is needed.
    pub(super) fn put(
        state: &Path,
        id: &str,
        protections: &[Protection],
    ) -> io::Result<(Self, Vec<PathBuf>)> {
        let absent = || {
            protections.iter().filter(|it| matches!(it.how, How::Absent | How::AbsentCommonDir))
        };
        let mut all = Self::default();
        let mut needless = Vec::new();
        if absent().next().is_none() {
            return Ok((all, needless));
        }
        all.record = Some(Record::write(state, id, absent().map(|it| it.path.as_path()))?);
        for Protection { path, how } in absent() {
            match stand_in(path, *how) {
                Ok(lock) => all.held.push(Held { path: path.clone(), lock, how: *how }),
                Err(error) if is_closed(&error) => needless.push(path.clone()),
                Err(error) => return Err(error),
            }
        }
        Ok((all, needless))
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Makes a stand-in, or shares one that is there, and holds it.
fn stand_in(path: &Path, how: How) -> io::Result<File> {
    for _ in 0..64 {
        match make(path, how) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !is_ours(path, how) {
                    return Err(io::Error::other("something else was made in its place"));
                }
            }
            Err(error) => return Err(error),
        }
        let Ok(lock) = open(path) else { continue };
        flock(&lock, FlockOperation::LockShared)?;
        // Whoever held it alone may have removed it before we got the lock.
        let same = path.symlink_metadata().is_ok_and(|now| {
            lock.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
        });
        if same {
            return Ok(lock);
        }
    }
    Err(io::Error::other("it comes and goes"))
}

fn make(path: &Path, how: How) -> io::Result<()> {
    if how == How::AbsentCommonDir {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        file.write_all(COMMON_DIR)?;
    } else {
        std::fs::DirBuilder::new().mode(DIR_MODE).create(path)?;
    }
    let time = Timespec { tv_sec: TIME, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether what is at `path` is a stand-in of ours, with nothing in it.
fn is_ours(path: &Path, how: How) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    let mode = found.mode() & 0o7777;
    let empty = if how == How::AbsentCommonDir {
        let content = std::fs::read(path).unwrap_or_default();
        found.is_file() && mode == FILE_MODE && content == COMMON_DIR
    } else {
        let bare = std::fs::read_dir(path).is_ok_and(|mut it| it.next().is_none());
        found.is_dir() && mode == DIR_MODE && bare
    };
    empty && found.mtime() == TIME
}

/// Removes the stand-in at `path` if it is one and nobody holds it.
fn remove(path: &Path, how: How, lock: &File) -> io::Result<()> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Another sandbox needs it, and will remove it.
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    }
    if !is_ours(path, how) {
        return Ok(());
    }
    if how == How::AbsentCommonDir {
        std::fs::remove_file(path)
    } else {
        std::fs::remove_dir(path)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for Held { path, lock, how } in self.held.drain(..).rev() {
            if let Err(error) = remove(&path, how, &lock) {
                // The record stays too, so the next start tries again.
                tracing::warn!(path = %path.display(), %error, "a stand-in was left");
                self.record = None;
            }
        }
        if let Some(record) = &self.record {
            std::fs::remove_file(&record.path).unwrap_or_default();
        }
    }
}

impl Record {
    fn write<'a>(
        state: &Path,
        id: &str,
        paths: impl Iterator<Item = &'a Path>,
    ) -> io::Result<Self> {
        let dir = state.join("stand-ins");
        let path = dir.join(id);
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut lock = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&dir)?;
                create()?
            }
            lock => lock?,
        };
        flock(&lock, FlockOperation::LockExclusive)?;
        let mut content = Vec::new();
        for it in paths {
            content.extend_from_slice(it.as_os_str().as_encoded_bytes());
            content.push(0);
        }
        lock.write_all(&content)?;
        Ok(Self { path, _lock: lock })
    }
}

/// Removes the stand-ins of sandboxes whose Bulkhead was killed; tells which.
pub(super) fn sweep(state: &Path) -> io::Result<Vec<String>> {
    let dir = state.join("stand-ins");
    let entries = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut swept = Vec::new();
    for entry in entries.flatten() {
        let Ok(mut record) = open(&entry.path()) else { continue };
        if flock(&record, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut content = Vec::new();
        (&mut record).take(1 << 20).read_to_end(&mut content)?;
        for bytes in content.split(|it| *it == 0).filter(|it| !it.is_empty()).rev() {
            let path = path_of(bytes.to_vec());
            let how =
                if path.ends_with("commondir") { How::AbsentCommonDir } else { How::Absent };
            if let Ok(lock) = open(&path) {
                remove(&path, how, &lock)?;
                swept.push(format!("stand-in {}", path.display()));
            }
        }
        std::fs::remove_file(entry.path())?;
    }
    Ok(swept)
}
