//! One directory of a cgroup filesystem, owned by a lock.
//!
//! The lock is the only record of who is alive: the kernel drops it with the last descriptor, so
//! a directory whose lock is free belongs to nobody. Directories are made with mode 0700, because
//! whoever can open one could lock it and so keep it from being swept.
//!
//! Invariant: whoever has a [`Dir`] holds the lock of the directory that is at its path.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::error::CgroupError;
use crate::listing;

/// How often a directory that a sweeper took away under our hands is made again.
const ATTEMPTS: u32 = 200;

/// A cgroup directory and its lock.
#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
    fd: OwnedFd,
}

impl Dir {
    /// Makes the directory and locks it.
    ///
    /// A sweeper may find the directory before we have locked it, and remove it; then it is made
    /// again.
    pub(super) fn create(path: &Path) -> Result<Dir, Errno> {
        let mut made_once = false;
        for attempt in 0..ATTEMPTS {
            match rustix::fs::mkdir(path, Mode::RWXU) {
                Ok(()) => made_once = true,
                // Ours of a moment ago, which a sweeper has locked or has left again.
                Err(Errno::EXIST) if made_once => {}
                Err(errno) => return Err(errno),
            }
            match Dir::claim(path) {
                Ok(Claim::Won(dir)) => return Ok(dir),
                Ok(Claim::Held | Claim::Absent) => {}
                Err(errno) => {
                    remove_tree(path)?;
                    return Err(errno);
                }
            }
            thread::sleep(Duration::from_micros(u64::from(attempt.min(20)) * 50));
        }
        Err(Errno::BUSY)
    }

    /// Takes over a directory that exists, if nobody holds it.
    pub(super) fn claim(path: &Path) -> Result<Claim, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Claim::Absent),
            Err(errno) => return Err(errno),
        };
        Dir::lock(path, fd)
    }

    /// Locks what was opened at `path`, if it is still what is there.
    pub(super) fn lock(path: &Path, fd: OwnedFd) -> Result<Claim, Errno> {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Claim::Held),
            Err(errno) => return Err(errno),
        }
        // Between the open and the lock it may have been removed, and made anew by another.
        let locked = rustix::fs::fstat(&fd)?;
        if !is_ours(&locked) {
            return Ok(Claim::Absent);
        }
        match rustix::fs::lstat(path) {
            Ok(now) if (now.st_dev, now.st_ino) == (locked.st_dev, locked.st_ino) => {
                Ok(Claim::Won(Dir { path: path.to_owned(), fd }))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(Claim::Absent),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, as `clone3` takes it for `CLONE_INTO_CGROUP`.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn has(&self, file: &str) -> bool {
        rustix::fs::accessat(
            &self.fd,
            file,
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )
        .is_ok()
    }

    pub(super) fn open(&self, file: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.fd, file, flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Writes a control file, or says which one refused what.
    pub(super) fn write(&self, file: &str, value: impl Display) -> Result<(), CgroupError> {
        let value = value.to_string();
        self.try_write(file, &value).map_err(|errno| CgroupError::Write {
            path: self.path.join(file),
            value,
            source: errno.into(),
        })
    }

    /// As [`Dir::write`], for a caller that has an answer to some errors.
    pub(super) fn try_write(&self, file: &str, value: &str) -> Result<(), Errno> {
        let fd = self.open(file, OFlags::WRONLY)?;
        // A control file takes a value in one piece or not at all.
        rustix::io::write(&fd, value.as_bytes()).map(|_| ())
    }

    pub(super) fn read(&self, file: &str) -> Result<String, CgroupError> {
        let text = self.open(file, OFlags::RDONLY).and_then(|fd| read_all(&fd));
        text.map_err(|errno| CgroupError::Read {
            path: self.path.join(file),
            source: errno.into(),
        })
    }

    /// Removes the directory and the cgroups below it. Gone already is what we wanted.
    pub(super) fn remove(&self) -> Result<(), Errno> {
        remove_tree(&self.path)
    }
}

/// Whether we made a directory: nobody else makes cgroups that only their maker may look into. The
/// name alone proves nothing, and what is in a stranger's must not be ended.
fn is_ours(dir: &rustix::fs::Stat) -> bool {
    let private = Mode::from_raw_mode(dir.st_mode) == Mode::RWXU;
    private && dir.st_uid == rustix::process::geteuid().as_raw()
}

/// Where the sandboxes of one tree have their directories.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    parent: PathBuf,
    prefix: String,
}

impl Slots {
    /// Directories `name/id`, for a parent that is ours.
    pub(super) fn below(base: &Path, name: &str) -> Slots {
        Slots { parent: base.join(name), prefix: String::new() }
    }

    /// Directories `name-id`, in a parent that is not ours.
    pub(super) fn beside(base: &Path, name: &str) -> Slots {
        Slots { parent: base.to_owned(), prefix: format!("{name}-") }
    }

    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.parent.join(format!("{}{id}", self.prefix))
    }

    /// The ids of all sandboxes that have a directory here, dead or alive.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        children(&self.parent).into_iter().filter_map(|name| {
            let id = name.to_str()?.strip_prefix(self.prefix.as_str())?;
            is_id(id).then(|| id.to_owned())
        })
    }
}

/// One plain directory name that no control file has: those have a dot.
pub(super) fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
}

/// What became of an attempt to take over a directory.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Won(Dir),
    /// Somebody alive holds it.
    Held,
    /// It is not there, or not any more.
    Absent,
}

/// The text of a file of a kernel filesystem, in as few calls as it takes: the kernel says that
/// they are empty, so that `std::fs` begins with 32 bytes and doubles.
pub(super) fn text_of(path: &Path) -> Result<String, Errno> {
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    read_all(&fd)
}

fn read_all(fd: &OwnedFd) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let length = rustix::io::read(fd, &mut buffer)?;
        if length == 0 {
            break;
        }
        bytes.extend(buffer.get(..length).unwrap_or_default());
    }
    // A path that is not text cannot be found by what is read here, and so is not used.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names of the cgroups directly below `path`; none if it does not exist.
pub(super) fn children(path: &Path) -> Vec<OsString> {
    let Ok(entries) = listing::entries(path) else { return Vec::new() };
    entries.filter(|it| it.kind == FileType::Directory).map(|it| it.name).collect()
}

/// Every cgroup below `path`, by its name; of several with one name, any.
pub(super) fn all_below(path: &Path) -> HashMap<OsString, PathBuf> {
    let mut found = HashMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(dir) = left.pop() {
        for name in children(&dir) {
            let path = dir.join(&name);
            left.push(path.clone());
            found.insert(name, path);
        }
    }
    found
}

pub(super) fn remove_tree(path: &Path) -> Result<(), Errno> {
    match rustix::fs::unlinkat(CWD, path, rustix::fs::AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Processes or cgroups are in it.
        Err(Errno::BUSY | Errno::NOTEMPTY) => {}
        Err(errno) => return Err(errno),
    }
    for child in children(path) {
        remove_tree(&path.join(child))?;
    }
    match rustix::fs::unlinkat(CWD, path, rustix::fs::AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// All processes in the cgroup `path` and below, as numbers of our own pid namespace.
pub(super) fn processes(path: &Path) -> Vec<rustix::process::Pid> {
    let text = text_of(&path.join("cgroup.procs")).unwrap_or_default();
    // A process of a namespace that we do not see is listed as 0, which is not a pid.
    let mut all: Vec<_> = text
        .lines()
        .filter_map(|line| line.parse().ok().and_then(rustix::process::Pid::from_raw))
        .collect();
    for child in children(path) {
        all.extend(processes(&path.join(child)));
    }
    all
}

/// A file with a measured value, opened at its first reading and kept.
#[derive(Debug)]
pub(super) struct Gauge {
    file: &'static str,
    fd: OnceLock<Option<OwnedFd>>,
}

impl Gauge {
    pub(super) const fn new(file: &'static str) -> Gauge {
        Gauge { file, fd: OnceLock::new() }
    }

    /// The whole file, or nothing where this kernel has no such file.
    pub(super) fn text(&self, dir: &Dir) -> Option<String> {
        let fd = self.fd.get_or_init(|| dir.open(self.file, OFlags::RDONLY).ok()).as_ref()?;
        // The largest, `cpu.stat`, stays under half of this.
        let mut buffer = [0; 2048];
        let length = rustix::io::pread(fd, &mut buffer, 0).ok()?;
        Some(String::from_utf8_lossy(buffer.get(..length)?).into_owned())
    }

    /// The number that is the whole file.
    pub(super) fn number(&self, dir: &Dir) -> Option<u64> {
        self.text(dir)?.trim().parse().ok()
    }

    /// The number after `key` in a file of `key number` lines.
    pub(super) fn keyed(&self, dir: &Dir, key: &str) -> Option<u64> {
        keyed(&self.text(dir)?, key)
    }
}

/// The number after `key` in a text of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
