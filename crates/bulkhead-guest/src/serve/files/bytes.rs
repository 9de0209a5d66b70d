//! The bytes of files.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, SeekFrom, fchmod, ftruncate, open, renameat, seek, statat,
        unlinkat,
    },
    io::{Errno, read as read_some, write as write_some},
};

use super::{
    Refused, Task,
    look::{of, open_file},
    names::as_path,
    notes::replace,
};
use crate::protocol::files::{Filed, Kind, Notes, Put};

/// As much as is read at once.
pub(super) const CHUNK: usize = 32 << 10;

/// Sends the bytes of a file, after what it is.
pub(super) fn read(
    path: &[u8],
    offset: u64,
    length: Option<u64>,
    task: &Task,
) -> Result<(), Refused> {
    let (file, facts) = open_file(path, OFlags::RDONLY)?;
    if 0 < offset {
        seek(&file, SeekFrom::Start(offset))?;
    }
    task.answer(Filed::Is(facts));
    copy(&file, task.pipe()?, length.unwrap_or(u64::MAX))?;
    Ok(())
}

/// Copies until the end, or `most` bytes.
fn copy(from: &OwnedFd, to: &OwnedFd, most: u64) -> Result<(), Errno> {
    let mut chunk = vec![0; CHUNK];
    let mut left = most;
    while 0 < left {
        let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let count = read_some(from, chunk.get_mut(..wanted).unwrap_or_default())?;
        if count == 0 {
            break;
        }
        write_all(to, chunk.get(..count).unwrap_or_default())?;
        left -= u64::try_from(count).unwrap_or(left);
    }
    Ok(())
}

pub(super) fn write_all(to: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write_some(to, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes what comes into a file, which has this mode and these notes.
pub(super) fn write(
    path: &[u8],
    put: Put,
    (mode, notes): (Option<u32>, Option<&Notes>),
    task: &Task,
) -> Result<(), Refused> {
    let pipe = task.pipe()?;
    match put {
        Put::Append | Put::InPlace => {
            let file = in_place(path, put, mode)?;
            notes.map_or(Ok(()), |it| replace(&file, it))?;
            copy(pipe, &file, u64::MAX)?;
            Ok(())
        }
        Put::Replace | Put::New => {
            // Through a link to the file that it leads to, if it leads to one.
            let real = std::fs::canonicalize(as_path(path)).ok();
            let real = real.map(|it| it.into_os_string().into_encoded_bytes());
            let path = real.as_deref().unwrap_or(path);
            let mut beside = Beside::create(path, put)?;
            notes.map_or(Ok(()), |it| replace(&beside.file, it))?;
            copy(pipe, &beside.file, u64::MAX)?;
            if !task.is_committed() {
                return Err(Errno::CANCELED.into());
            }
            beside.settle(mode, put)
        }
    }
}

fn in_place(path: &[u8], put: Put, mode: Option<u32>) -> Result<OwnedFd, Refused> {
    let flags = match put {
        Put::Append => OFlags::WRONLY | OFlags::APPEND,
        Put::InPlace | Put::Replace | Put::New => OFlags::WRONLY,
    };
    let file = match open_file(path, flags) {
        Err(Refused::Kernel(Errno::NOENT)) => {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            open(path, flags, Mode::from_raw_mode(mode.unwrap_or(0o644)))?
        }
        other => other?.0,
    };
    if put == Put::InPlace {
        ftruncate(&file, 0)?;
    }
    if let Some(mode) = mode {
        fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    Ok(file)
}

/// A file beside the one that it becomes; removed again unless it does.
struct Beside<'a> {
    file: OwnedFd,
    path: Vec<u8>,
    target: &'a [u8],
    /// The permissions of what is there.
    there: Option<u32>,
}

impl<'a> Beside<'a> {
    fn create(target: &'a [u8], put: Put) -> Result<Self, Refused> {
        let there = match statat(CWD, target, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
            Ok(_) if put == Put::New => return Err(Errno::EXIST.into()),
            Ok(stat) => Some(of(&stat)),
        };
        match there.as_ref().map(|it| it.kind) {
            None | Some(Kind::File) => {}
            Some(Kind::Dir) => return Err(Errno::ISDIR.into()),
            Some(kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device)) => {
                return Err(Refused::NotAFile(kind));
            }
        }
        let slash = target.iter().rposition(|it| *it == b'/').map_or(0, |at| at + 1);
        let (dir, name) = target.split_at_checked(slash).unwrap_or_default();
        if name.is_empty() {
            return Err(Errno::ISDIR.into());
        }
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let random = format!(".bulkhead-{:016x}", u64::from_ne_bytes(random));
        let path = [dir, random.as_bytes()].concat();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(&*path, flags, Mode::from_raw_mode(0o600))?;
        Ok(Self { file, path, target, there: there.map(|it| it.mode) })
    }

    /// Puts it where it belongs.
    fn settle(&mut self, mode: Option<u32>, put: Put) -> Result<(), Refused> {
        let mode = mode.or(self.there).unwrap_or(0o644) & 0o777;
        fchmod(&self.file, Mode::from_raw_mode(mode))?;
        if put == Put::New {
            super::names::rename(
                &self.path,
                self.target,
                crate::protocol::files::Onto::Nothing,
            )?;
        } else {
            renameat(CWD, &*self.path, CWD, self.target)?;
        }
        self.path.clear();
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.path.is_empty() {
            // What cannot be removed was removed by somebody else.
            unlinkat(CWD, &*self.path, AtFlags::empty()).unwrap_or_default();
        }
    }
}
