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
mod record;

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io,
    os::{fd::AsFd as _, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

pub(crate) use self::kind::{Material, is_one};
use self::{
    kind::{Kit, Spot, is_ours},
    record::Record,
};
use super::protect::{How, Protection};
use crate::Visible;

/// How long another sandbox may take to remove its stand-ins.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stand-ins of one sandbox. Dropping it removes those that no other sandbox needs.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    paths: Vec<PathBuf>,
    /// The directories that hold them.
    locks: Vec<(PathBuf, Lock)>,
    record: Option<Record>,
    kit: Option<Kit>,
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
        let kit = all.kit.insert(Kit::at(&record::spares(state), material));
        let dirs: BTreeSet<&Path> = absent.iter().filter_map(|it| it.path.parent()).collect();
        for dir in dirs {
            all.locks.push((dir.to_owned(), hold(dir)?));
        }
        for Protection { path, how } in absent {
            let Some(spot) = spot(&all.locks, path) else { continue };
            match kit.put(spot, *how) {
                Ok(()) => all.paths.push(path.clone()),
                Err(error) if is_closed(&error) => needless.push(path.clone()),
                Err(error) => return Err(error),
            }
        }
        Ok((all, needless))
    }
}

/// Where `path` is, in one of the locked directories.
fn spot<'a>(locks: &'a [(PathBuf, Lock)], path: &'a Path) -> Option<Spot<'a>> {
    let (_, lock) = locks.iter().find(|(dir, _)| path.parent() == Some(dir))?;
    Some(Spot::within(lock.0.as_fd(), path))
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

impl Visible for StandIns {
    fn clear(&mut self) {
        if self.paths.is_empty() {
            return;
        }
        // Others who have locked a directory need what is in it still, and will remove it.
        self.locks.retain(|(_, lock)| is_alone(&lock.0).unwrap_or_default());
        for path in self.paths.drain(..).rev() {
            let Some(spot) = spot(&self.locks, &path) else { continue };
            if let Some(Err(error)) = self.kit.as_ref().map(|kit| kit.remove(spot)) {
                // The record stays too, so the next start tries again.
                tracing::warn!(path = %path.display(), %error, "a stand-in was left");
                self.record = None;
            }
        }
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        self.clear();
        if let Some(record) = &self.record {
            record.clear().unwrap_or_default();
        }
    }
}

/// Removes the stand-ins of sandboxes whose Bulkhead was killed; tells which.
pub(crate) fn sweep(state: &Path) -> io::Result<Vec<String>> {
    let kit = Kit::at(&record::spares(state), Material::Socket);
    let mut swept = Vec::new();
    let abandoned = record::abandoned(state)?;
    for record in &abandoned {
        let (id, paths) = record.read()?;
        let mut undecided = false;
        for path in paths.into_iter().rev() {
            let Some(lock) = path.parent().and_then(|dir| open(dir).ok()).map(Lock) else {
                undecided |= is_one(&path);
                continue;
            };
            // Held until it is removed: a sandbox that starts meanwhile waits, and makes its own.
            let alone = is_alone(&lock.0).unwrap_or_default();
            let spot = Spot::within(lock.0.as_fd(), &path);
            match is_ours(spot, How::absent(&path)) {
                true if alone => kit.remove(spot)?,
                // Its lock is held by another sandbox, which has come to need it and will remove
                // it, or by a child of the one that was killed, which is about to notice that.
                true => undecided |= !record::living_tells_of(state, &path, &abandoned)?,
                false => {}
            }
        }
        if !undecided {
            record.clear()?;
            swept.push(format!("stand-ins of {id}"));
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_still_locks_is_swept_when_they_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (state, work) = (dir.path().join("state"), dir.path().join("work"));
        std::fs::create_dir_all(&work).unwrap();
        std::fs::create_dir_all(record::spares(&state)).unwrap();
        let path = work.join(".envrc");
        let dir = open(&work).unwrap();
        let mut kit = Kit::at(&record::spares(&state), Material::Socket);
        kit.put(Spot::within(dir.as_fd(), &path), How::Absent).unwrap();
        // Its Bulkhead was killed, and a child of it has not noticed yet.
        drop(Record::write(&state, "dead", [path.as_path()].into_iter()).unwrap());
        let child = hold(&work).unwrap();
        assert!(sweep(&state).unwrap().is_empty());
        assert!(std::fs::symlink_metadata(&path).is_ok());
        drop(child);
        assert_eq!(sweep(&state).unwrap(), ["stand-ins of dead"]);
        assert!(std::fs::symlink_metadata(&path).is_err());
        assert!(sweep(&state).unwrap().is_empty());
    }
}
