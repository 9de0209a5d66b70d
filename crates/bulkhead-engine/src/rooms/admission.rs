//! Whether the host bears more rooms.
//!
//! A sandbox is refused before it is begun, not when the host is already out of something: then the
//! rooms that are there would suffer for the one that is not.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use bulkhead_spec::Bytes;
use serde::{Deserialize, Serialize};

/// When it is worth another try.
const RETRY: Duration = Duration::from_secs(5);

/// There is no place for another sandbox now. Later there may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("busy: {why}")]
pub struct Busy {
    /// What is short, and how much of it is kept.
    pub why: String,
    /// When it is worth another try.
    pub retry: Duration,
}

impl Busy {
    fn of(why: String) -> Self {
        Self { why, retry: RETRY }
    }
}

/// What of the host no new sandbox may eat into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Memory; a twentieth of the host's, and 512 MiB at most, if not said.
    pub memory: Option<Bytes>,
    /// Processes and threads.
    pub pids: u64,
    /// Space where rooms are written down.
    pub disk: Bytes,
    /// Files that can still be made there.
    pub inodes: u64,
    /// Open files.
    pub files: u64,
}

impl Default for Reserve {
    fn default() -> Self {
        Self { memory: None, pids: 512, disk: Bytes(64 << 20), inodes: 1024, files: 4096 }
    }
}

/// What stands between a wish and a room.
#[derive(Clone, Debug)]
pub struct Admission {
    /// What of the host is kept.
    pub reserve: Reserve,
    /// Where rooms are written down.
    pub state: PathBuf,
}

impl Admission {
    /// Whether the host bears one more room.
    pub fn check(&self) -> Result<(), Busy> {
        self.check_for(1)
    }

    /// Whether it bears so many, all of them.
    pub fn check_for(&self, rooms: usize) -> Result<(), Busy> {
        self.reserve.check(&self.state, rooms)
    }
}

/// What a room takes at least, before anything runs in it: a shim and a guest, each with a few
/// threads, and what is written down.
mod least {
    pub(super) const MEMORY: u64 = 3 << 20;
    pub(super) const PIDS: u64 = 4;
    pub(super) const FILES: u64 = 48;
    pub(super) const DISK: u64 = 16 << 10;
    pub(super) const INODES: u64 = 6;
}

impl Reserve {
    /// Whether the host bears one more sandbox, as far as one small file tells: for those who start
    /// something that does not stay.
    pub fn check_memory(&self) -> Result<(), Busy> {
        self.check_memory_for(1)
    }

    fn check_memory_for(&self, rooms: usize) -> Result<(), Busy> {
        // What cannot be read, cannot be short: other systems, other files.
        let Ok(text) = fs::read_to_string("/proc/meminfo") else { return Ok(()) };
        let (Some(total), Some(free)) = (kib(&text, "MemTotal:"), kib(&text, "MemAvailable:"))
        else {
            return Ok(());
        };
        let kept = self.memory.unwrap_or(Bytes((total.0 / 20).min(512 << 20)));
        let taken = Bytes(beside_first(rooms, least::MEMORY));
        short(("of memory", "reserve.memory"), free, kept, taken, |it| it.0)
    }

    /// Whether the host bears so many more rooms that are written down in `dir`.
    fn check(&self, dir: &Path, rooms: usize) -> Result<(), Busy> {
        self.check_memory_for(rooms)?;
        let counted = [
            (free_pids(), ("processes", "reserve.pids"), self.pids, least::PIDS),
            (free_files(), ("open files", "reserve.files"), self.files, least::FILES),
        ];
        for (free, what, kept, each) in counted {
            if let Ok(free) = free {
                short(what, free, kept, beside_first(rooms, each), |it| it)?;
            }
        }
        let Some(space) = space_of(dir) else { return Ok(()) };
        let free = Bytes(space.f_bavail.saturating_mul(space.f_frsize));
        let taken = Bytes(beside_first(rooms, least::DISK));
        short(("of disk", "reserve.disk"), free, self.disk, taken, |it| it.0)?;
        // Some filesystems do not count files.
        if space.f_files == 0 {
            return Ok(());
        }
        let taken = beside_first(rooms, least::INODES);
        let what = ("files to be made", "reserve.inodes");
        short(what, space.f_favail, self.inodes, taken, |it| it)
    }
}

/// What rooms take beside the first: that one may take what is left above the reserve.
fn beside_first(rooms: usize, each: u64) -> u64 {
    u64::try_from(rooms).unwrap_or(u64::MAX).saturating_sub(1).saturating_mul(each)
}

fn short<T: Copy + std::fmt::Display>(
    (what, key): (&str, &str),
    free: T,
    kept: T,
    taken: T,
    number: impl Fn(T) -> u64,
) -> Result<(), Busy> {
    if number(kept).saturating_add(number(taken)) <= number(free) {
        return Ok(());
    }
    let many = match number(taken) {
        0 => String::new(),
        _ => format!(", the rooms take {taken} at least"),
    };
    Err(Busy::of(format!(
        "{free} {what} are left on this host{many}, and `{key}` keeps {kept}"
    )))
}

/// A line of `/proc/meminfo`.
fn kib(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|it| it.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(number.saturating_mul(1024)))
}

/// How many more processes and threads the kernel would make.
fn free_pids() -> io::Result<u64> {
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    // `0.20 0.18 0.12 1/80 11206`: of 80 that there are, 1 runs.
    let load = fs::read_to_string("/proc/loadavg")?;
    let all = load.split_whitespace().nth(3).and_then(|it| it.split_once('/'));
    let all = all.and_then(|(_, all)| all.parse::<u64>().ok());
    Ok(most.saturating_sub(all.ok_or(io::ErrorKind::InvalidData)?))
}

/// How many more files the kernel would open.
fn free_files() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/sys/fs/file-nr")?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(open)), Some(Ok(unused)), Some(Ok(most))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(most.saturating_sub(open.saturating_sub(unused)))
}

fn number(path: &str) -> io::Result<u64> {
    fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}

/// The filesystem that `dir` is on, or will be.
fn space_of(dir: &Path) -> Option<rustix::fs::StatVfs> {
    dir.ancestors().find_map(|it| rustix::fs::statvfs(it).ok())
}

#[cfg(test)]
mod tests {
    use super::{Reserve, short};

    #[test]
    fn many_rooms_are_refused_where_one_is_borne() {
        let reserve = Reserve::default();
        let dir = std::path::Path::new("/");
        reserve.check(dir, 1).unwrap();
        let busy = reserve.check(dir, 100_000_000).unwrap_err();
        assert!(busy.why.contains("the rooms take"), "{busy}");
    }

    #[test]
    fn what_is_kept_is_kept_from_all_of_them_together() {
        let check = |rooms| {
            short(("files", "key"), 100, 40, super::beside_first(rooms, 10), |it: u64| it)
        };
        assert_eq!(check(7), Ok(()));
        let busy = check(8).unwrap_err();
        assert_eq!(
            busy.why,
            "100 files are left on this host, the rooms take 70 at least, and `key` keeps 40"
        );
    }
}
