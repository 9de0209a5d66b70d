//! A tree out of a sandbox, onto the host's disk.
//!
//! Everything in it is hostile: names stay below the directory that was named, links are made and
//! never followed, permissions give nothing but reading, writing and running, and bytes and names
//! are counted as they come.

use std::{
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
};

use bulkhead_guest::{
    filling::{Filling, clear},
    protocol::files::{Facts, Kind, Record},
};
use rustix::{
    fs::{
        Mode, OFlags, ResolveFlags, Timespec, Timestamps, fchmod, futimens, mkdirat, open,
        openat, openat2, symlinkat,
    },
    io::Errno,
};
use tokio::io::AsyncRead;

use super::{FileError, Item, Records};

/// How much may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of files.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of files.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// What the sandbox could not send.
    pub skipped: Vec<Vec<u8>>,
}

/// Puts what comes at `top`: a file, or a directory, which may be there already. What is in the way
/// of a file is replaced, what is in the way of a directory is an error. `progress` hears of every
/// chunk.
///
/// # Guarantees
/// Nothing is written but at `top` and below it, whatever comes and whatever lies there.
pub async fn receive(
    from: impl AsyncRead + Unpin,
    top: &Path,
    bounds: Bounds,
    mut progress: impl FnMut(&Received),
) -> Result<Received, FileError> {
    let mut records = Records::new(from);
    let mut making =
        Making { top, dir: None, file: None, dirs: Vec::new(), came: Received::default() };
    loop {
        match records.next().await? {
            Some(Item::Record(Record::End)) => return making.finish(),
            Some(Item::Record(Record::Entry { path, facts })) => {
                making.came.entries += 1;
                within("entries", making.came.entries, bounds.entries)?;
                making.entry(&path, facts)?;
            }
            Some(Item::Record(Record::FileEnd)) => making.file_end()?,
            Some(Item::Record(Record::Skipped { path, .. })) => {
                making.came.entries += 1;
                within("entries", making.came.entries, bounds.entries)?;
                making.give_up()?;
                making.came.skipped.push(path);
            }
            Some(Item::Bytes(bytes)) => {
                making.came.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                within("bytes", making.came.bytes, bounds.bytes)?;
                making.bytes(&bytes)?;
            }
            Some(Item::Record(Record::Changed { .. } | Record::Overflow)) => {
                return Err(FileError::Hostile("a change in a tree"));
            }
            None => return Err(FileError::System(io::ErrorKind::UnexpectedEof.into())),
        }
        progress(&making.came);
    }
}

fn within(what: &'static str, came: u64, most: u64) -> Result<(), FileError> {
    if came <= most { Ok(()) } else { Err(FileError::TooMuch { what, most }) }
}

struct Making<'a> {
    top: &'a Path,
    /// The directory at the top, once it came.
    dir: Option<OwnedFd>,
    file: Option<Incoming>,
    /// Directories that get their permissions when all is in them.
    dirs: Vec<(OwnedFd, Facts)>,
    came: Received,
}

/// A file whose bytes are coming.
struct Incoming {
    filling: Filling,
    facts: Facts,
    /// Where it is, and under which name.
    parent: OwnedFd,
    name: Vec<u8>,
}

/// The most directories that are held open until the end; the rest keep what they were made with.
const MOST_DIRS: usize = 256;

impl Making<'_> {
    fn entry(&mut self, path: &[u8], facts: Facts) -> Result<(), FileError> {
        if self.file.is_some() {
            return Err(FileError::Hostile("an entry inside of a file"));
        }
        let (parent, name) = match (&self.dir, path.iter().rposition(|it| *it == b'/')) {
            (None, _) if path.is_empty() => {
                let name = self.top.file_name().ok_or(Errno::INVAL)?;
                let parent = self.top.parent().filter(|it| !it.as_os_str().is_empty());
                (
                    open(parent.unwrap_or(Path::new(".")), DIRECTORY, Mode::empty())?,
                    name.as_bytes(),
                )
            }
            (Some(_), _) if path.is_empty() => return Err(FileError::Hostile("a second top")),
            (None, _) => return Err(FileError::Hostile("a tree without a top")),
            (Some(dir), None) => (openat(dir, ".", DIRECTORY, Mode::empty())?, path),
            (Some(dir), Some(at)) => {
                let (above, name) = path.split_at_checked(at).unwrap_or_default();
                let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let above = openat2(dir, above, DIRECTORY, Mode::empty(), rules)?;
                (above, name.get(1..).unwrap_or_default())
            }
        };
        match facts.kind {
            Kind::Dir => self.make_dir(&parent, name, facts),
            Kind::Link => {
                clear(&parent, name)?;
                let target =
                    facts.target.ok_or(FileError::Hostile("a link that says nothing"))?;
                Ok(symlinkat(&*target, &parent, name)?)
            }
            Kind::File => {
                let (filling, name) = (Filling::fresh(&parent, name)?, name.to_vec());
                self.file = Some(Incoming { filling, facts, parent, name });
                Ok(())
            }
            Kind::Fifo | Kind::Socket | Kind::Device => {
                Err(FileError::Hostile("something that is not sent"))
            }
        }
    }

    fn make_dir(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        facts: Facts,
    ) -> Result<(), FileError> {
        let is_top = self.dir.is_none();
        let made = match mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        // The top was named by the caller, who may have named it by a link.
        let follow = if is_top && !made { OFlags::empty() } else { OFlags::NOFOLLOW };
        let dir = openat(parent, name, DIRECTORY | follow, Mode::empty())?;
        if is_top {
            self.dir = Some(openat(&dir, ".", DIRECTORY, Mode::empty())?);
        }
        if made && self.dirs.len() < MOST_DIRS {
            self.dirs.push((dir, facts));
        } else if made {
            fchmod(&dir, Mode::from_raw_mode(facts.mode & 0o777 | 0o700))?;
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let file = self.file.as_mut().ok_or(FileError::Hostile("bytes of no file"))?;
        Ok(file.filling.add(bytes)?)
    }

    fn file_end(&mut self) -> Result<(), FileError> {
        let file = self.file.take().ok_or(FileError::Hostile("an end of no file"))?;
        set(&file.filling.finish()?, &file.facts)
    }

    /// Takes a file away that has no end.
    fn give_up(&mut self) -> Result<(), FileError> {
        match self.file.take() {
            Some(Incoming { parent, name, .. }) => Ok(clear(&parent, &name)?),
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<Received, FileError> {
        if self.file.is_some() || self.came.entries == 0 {
            return Err(FileError::Hostile("a tree that is not whole"));
        }
        for (dir, facts) in self.dirs.iter().rev() {
            set(dir, facts)?;
        }
        Ok(self.came)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Permissions without set-id bits, and when it was changed.
fn set(file: &OwnedFd, facts: &Facts) -> Result<(), FileError> {
    fchmod(file, Mode::from_raw_mode(facts.mode & 0o777))?;
    let (seconds, nanos) = facts.modified;
    if 999_999_999 < nanos {
        return Err(FileError::Hostile("a time that is none"));
    }
    let modified = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) };
    Ok(futimens(file, &Timestamps { last_access: modified, last_modification: modified })?)
}
