//! Stand-ins for files that must not be made.
//!
//! A name can be kept from being made only by mounting something on it, and a mount needs something
//! to lie on. So for the time of a run something stands where the file would be that nobody can use
//! and git does not see: a socket that nobody listens on, one inode under all names, which costs
//! a few microseconds a name.
//!
//! Invariant: a stand-in can be told from anything that a person would make (kind, permissions,
//! time), so whoever comes next removes it safely if we were killed. The directory that holds them
//! is locked while a sandbox needs them.

mod kind;

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use self::kind::{First, is_ours, remove};
pub(crate) use self::kind::{Material, is_one};
use super::{
    protect::{How, Protection},
    share::path_of,
};

/// How long another sandbox may take to remove its stand-ins.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stand-ins of one sandbox. Dropping it removes those that no other sandbox needs.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    paths: Vec<PathBuf>,
    /// The directories that hold them.
    locks: Vec<(PathBuf, Lock)>,
    record: Option<Record>,
}

/// Where the next start finds what we made, should we be killed.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    _lock: File,
}

impl StandIns {
    /// Puts a stand-in in place of everything among `protections` that is absent.
    ///
    /// Where we cannot write, the sandbox cannot either: those paths are returned, and need nothing.
    pub(crate) fn put(
        state: &Path,
        id: &str,
        protections: &[Protection],
        material: Material,
    ) -> io::Result<(Self, Vec<PathBuf>)> {
        let absent: Vec<&Protection> =
            protections.iter().filter(|it| it.how.is_absent()).collect();
        let mut all = Self::default();
        let mut needless = Vec::new();
        if absent.is_empty() {
            return Ok((all, needless));
        }
        let record = Record::write(state, id, absent.iter().map(|it| it.path.as_path()))?;
        all.record = Some(record);
        let dirs: BTreeSet<&Path> = absent.iter().filter_map(|it| it.path.parent()).collect();
        for dir in dirs {
            all.locks.push((dir.to_owned(), hold(dir)?));
        }
        let mut first = First::of(material);
        for Protection { path, how } in absent {
            match first.put(path, *how) {
                Ok(()) => all.paths.push(path.clone()),
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

/// A directory that is locked, or about to be.
///
/// Dropping it unlocks it, and does not leave that to the last descriptor: a sandbox that is born
/// meanwhile has a copy for some milliseconds, and others would take us to be still there.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Fails for no lock that could be ours.
        flock(&self.0, FlockOperation::Unlock).unwrap_or_default();
    }
}

/// Locks `dir` together with others who need stand-ins in it.
fn hold(dir: &Path) -> io::Result<Lock> {
    let lock = Lock(open(dir)?);
    let start = Instant::now();
    loop {
        match flock(&lock.0, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(lock),
            // Somebody is removing theirs, which takes microseconds.
            Err(Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => std::thread::yield_now(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether nobody else needs stand-ins in the locked directory.
fn is_alone(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        // Others who have locked a directory need what is in it still, and will remove it.
        self.locks.retain(|(_, lock)| is_alone(&lock.0).unwrap_or_default());
        let alone =
            |path: &PathBuf| self.locks.iter().any(|(dir, _)| path.parent() == Some(dir));
        for path in self.paths.drain(..).rev().filter(alone) {
            if let Err(error) = remove(&path) {
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
pub(crate) fn sweep(state: &Path) -> io::Result<Vec<String>> {
    let dir = state.join("stand-ins");
    let entries = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut swept = Vec::new();
    for entry in entries.flatten() {
        let Ok(mut record) = open(&entry.path()) else { continue };
        if !is_alone(&record)? {
            continue;
        }
        let mut content = Vec::new();
        (&mut record).take(1 << 20).read_to_end(&mut content)?;
        let paths = content.split(|it| *it == 0).filter(|it| !it.is_empty());
        for path in paths.rev().map(|bytes| path_of(bytes.to_vec())) {
            let lock = path.parent().and_then(|dir| open(dir).ok()).map(Lock);
            // Held until it is removed: a sandbox that starts meanwhile waits, and makes its own.
            let alone = lock.as_ref().is_some_and(|it| is_alone(&it.0).unwrap_or_default());
            if alone && is_ours(&path, How::absent(&path)) {
                remove(&path)?;
                swept.push(format!("stand-in {}", path.display()));
            }
        }
        std::fs::remove_file(entry.path())?;
    }
    Ok(swept)
}
