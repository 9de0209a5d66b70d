//! What is there, without opening what could block or bite.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, open, readlinkat, statat},
    io::Errno,
};

use super::{Refused, notes};
use crate::protocol::files::{Facts, Follow, Kind};

/// What the kernel knows about `path`.
pub(super) fn facts(path: &[u8], follow: Follow) -> Result<Facts, Refused> {
    let flags = match follow {
        Follow::Links => AtFlags::empty(),
        Follow::Nothing => AtFlags::SYMLINK_NOFOLLOW,
    };
    let stat = statat(CWD, path, flags)?;
    Ok(more(path, of(&stat))?)
}

/// What the kernel knows beside `facts` about what is at `path`.
pub(super) fn more(path: &[u8], mut facts: Facts) -> Result<Facts, Errno> {
    match facts.kind {
        Kind::Link => {
            facts.target = Some(readlinkat(CWD, path, Vec::new())?.into_bytes());
        }
        Kind::File | Kind::Dir => facts.notes = notes::of(path),
        Kind::Fifo | Kind::Socket | Kind::Device => {}
    }
    Ok(facts)
}

/// What `stat` says.
pub(super) fn of(stat: &Stat) -> Facts {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
        FileType::RegularFile | FileType::Unknown => Kind::File,
    };
    Facts {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
        modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default()),
        target: None,
        notes: Vec::new(),
    }
}

/// Opens a file, and nothing but a file. A pipe is not even touched, as far as we can see it; one
/// that takes the file's place in the meantime does not hold us up.
pub(super) fn open_file(path: &[u8], flags: OFlags) -> Result<(OwnedFd, Facts), Refused> {
    let is_file = |facts: Facts| match facts.kind {
        Kind::File => Ok(facts),
        Kind::Dir => Err(Refused::Kernel(Errno::ISDIR)),
        kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device) => {
            Err(Refused::NotAFile(kind))
        }
    };
    is_file(of(&statat(CWD, path, AtFlags::empty())?))?;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty())?;
    let facts = is_file(of(&fstat(&file)?))?;
    Ok((file, facts))
}
