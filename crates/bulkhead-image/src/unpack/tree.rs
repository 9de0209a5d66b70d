//! The directory that a layer is written into.

use std::{
    collections::HashSet,
    fs::File,
    io::{Read, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags,
        fchmod, fsetxattr, futimens, linkat, mkdirat, mknodat, openat, openat2, statat,
        symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{
    Member, Trouble,
    name::{Parts, Refusal, parts},
};
use crate::ImageError;

/// The kernel's words, in the form that an ordinary user may write and an overlay with
/// `userxattr` reads.
const OPAQUE: &str = "user.overlay.opaque";
const WHITEOUT: &str = "user.overlay.whiteout";

/// A directory on the way that no entry describes.
const IMPLIED: Mode = Mode::from_raw_mode(0o755);

pub(super) struct Tree<'a> {
    root: BorrowedFd<'a>,
    /// The directory of the last entry: the next one is mostly beside it.
    last: Option<(Parts, OwnedFd)>,
    /// Names that this layer removes from those below.
    removed: HashSet<Parts>,
    buffer: Vec<u8>,
}

/// Whether directories on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Made,
    Found,
}

/// What the layer said about a name before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// That the layers below do not have it.
    Removed,
    /// Nothing of the kind.
    Open,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: BorrowedFd<'a>) -> Result<Self, ImageError> {
        let made = fchmod(root, IMPLIED).map_err(Into::into);
        made.map_err(ImageError::system("unpack a layer"))?;
        Ok(Self { root, last: None, removed: HashSet::new(), buffer: vec![0; 1 << 16] })
    }

    pub(super) fn set_root(&mut self, mode: u32) -> Result<(), Trouble> {
        Ok(fchmod(self.root, dir_mode(mode))?)
    }

    pub(super) fn dir(
        &mut self,
        parent: &Parts,
        name: &[u8],
        mode: u32,
    ) -> Result<(), Trouble> {
        let dir = self.walk(parent, Way::Made)?;
        let own = make_dir(dir.as_fd(), name, self.take_removed(parent, name))?;
        Ok(fchmod(own, dir_mode(mode))?)
    }

    pub(super) fn file(
        &mut self,
        parent: &Parts,
        name: &[u8],
        member: &Member,
        content: &mut impl Read,
    ) -> Result<(), Trouble> {
        let dir = self.clear(parent, name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        loop {
            let count = content.read(&mut self.buffer)?;
            if count == 0 {
                break;
            }
            file.write_all(self.buffer.get(..count).unwrap_or_default())?;
        }
        fchmod(&file, file_mode(member.mode))?;
        let time = Timespec { tv_sec: member.modified, tv_nsec: 0 };
        match futimens(&file, &Timestamps { last_access: time, last_modification: time }) {
            // A time that this filesystem cannot keep is not worth an image.
            Ok(()) | Err(Errno::INVAL | Errno::OVERFLOW) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where a link leads matters to whoever follows it, and that is the sandbox alone.
    pub(super) fn symlink(
        &mut self,
        parent: &Parts,
        name: &[u8],
        to: &[u8],
    ) -> Result<(), Trouble> {
        if to.is_empty() || 4095 < to.len() || to.contains(&0) {
            return Err(Refusal("it is a symbolic link to no path").into());
        }
        let dir = self.clear(parent, name)?;
        Ok(symlinkat(to, &dir, name)?)
    }

    pub(super) fn hard_link(
        &mut self,
        parent: &Parts,
        name: &[u8],
        to: &[u8],
    ) -> Result<(), Trouble> {
        let mut target = parts(to)?;
        let lost = || Trouble::from(Refusal("it is a hard link to nothing in this layer"));
        if self.removed.contains(&target) {
            return Err(lost());
        }
        let leaf = target.pop().ok_or_else(lost)?;
        if target == *parent && leaf == name {
            return Err(Refusal("it is a hard link to itself").into());
        }
        let from = match self.walk(&target, Way::Found) {
            Err(Trouble::System(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(lost());
            }
            found => found?,
        };
        match kind_of(from.as_fd(), &leaf)? {
            Some(FileType::RegularFile | FileType::Symlink | FileType::Fifo) => {}
            Some(_) | None => return Err(lost()),
        }
        let dir = self.clear(parent, name)?;
        Ok(linkat(&from, leaf.as_slice(), &dir, name, AtFlags::empty())?)
    }

    pub(super) fn fifo(
        &mut self,
        parent: &Parts,
        name: &[u8],
        mode: u32,
    ) -> Result<(), Trouble> {
        let dir = self.clear(parent, name)?;
        Ok(mknodat(&dir, name, FileType::Fifo, file_mode(mode), 0)?)
    }

    /// Removes `name` from the layers below.
    pub(super) fn remove_below(&mut self, parent: &Parts, name: &[u8]) -> Result<(), Trouble> {
        let dir = self.walk(parent, Way::Made)?;
        let path = below(parent, name);
        match kind_of(dir.as_fd(), name)? {
            Some(_) if self.removed.contains(&path) => Ok(()),
            // The layer has the name itself, so only what lies below it is removed.
            Some(FileType::Directory) => {
                let own = open_dir(dir.as_fd(), name)?;
                hide(own.as_fd())
            }
            Some(_) => Ok(()),
            None => {
                whiteout(dir.as_fd(), name)?;
                self.removed.insert(path);
                Ok(())
            }
        }
    }

    /// Hides what the layers below have in `parent`.
    pub(super) fn hide_below(&mut self, parent: &Parts) -> Result<(), Trouble> {
        let dir = self.walk(parent, Way::Made)?;
        hide(dir.as_fd())
    }

    /// The directory for a new `name`, of which an earlier entry of that name is taken out.
    fn clear(&mut self, parent: &Parts, name: &[u8]) -> Result<OwnedFd, Trouble> {
        let dir = self.walk(parent, Way::Made)?;
        match kind_of(dir.as_fd(), name)? {
            None => {}
            Some(FileType::Directory) => {
                return Err(Refusal("it replaces a directory of the same layer").into());
            }
            Some(_) => unlinkat(&dir, name, AtFlags::empty())?,
        }
        self.removed.remove(&below(parent, name));
        Ok(dir)
    }

    fn take_removed(&mut self, parent: &Parts, name: &[u8]) -> Before {
        if !self.removed.is_empty() && self.removed.remove(&below(parent, name)) {
            Before::Removed
        } else {
            Before::Open
        }
    }

    /// The directory that `path` leads to, from the root and never through a symbolic link.
    fn walk(&mut self, path: &Parts, way: Way) -> Result<OwnedFd, Trouble> {
        if let Some((last, dir)) = &self.last
            && last == path
        {
            return Ok(dir.try_clone()?);
        }
        let dir = match open_whole(self.root, path) {
            Err(Errno::NOENT | Errno::NOTDIR) if way == Way::Made => self.make(path)?,
            found => found?,
        };
        self.last = Some((path.clone(), dir.try_clone()?));
        Ok(dir)
    }

    fn make(&mut self, path: &Parts) -> Result<OwnedFd, Trouble> {
        let mut dir = self.root.try_clone_to_owned()?;
        let mut walked = Parts::new();
        for part in path {
            let before = self.take_removed(&walked, part);
            dir = match (kind_of(dir.as_fd(), part)?, before) {
                (None, _) | (Some(_), Before::Removed) => make_dir(dir.as_fd(), part, before)?,
                (Some(_), Before::Open) => open_dir(dir.as_fd(), part)?,
            };
            walked.push(part.clone());
        }
        Ok(dir)
    }
}

fn below(parent: &Parts, name: &[u8]) -> Parts {
    let mut path = parent.clone();
    path.push(name.to_vec());
    path
}

/// Bits that give somebody else's rights are left out: nothing in a sandbox could use them, and
/// the cache lies on the host. The owner can always read and write: it stands for the image's
/// root, to whom permissions mean nothing.
fn file_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o777 | 0o600)
}

fn dir_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o1777 | 0o700)
}

fn kind_of(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

const AS_DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(dir, name, AS_DIR, Mode::empty(), resolve)
}

fn open_whole(root: BorrowedFd<'_>, path: &Parts) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return open_dir(root, b".");
    }
    open_dir(root, &path.join(&b'/'))
}

/// Makes a directory, or finds it; one that replaces what the layer removes hides it.
fn make_dir(dir: BorrowedFd<'_>, name: &[u8], before: Before) -> Result<OwnedFd, Trouble> {
    if before == Before::Removed {
        unlinkat(dir, name, AtFlags::empty())?;
    }
    match mkdirat(dir, name, IMPLIED) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            if kind_of(dir, name)? != Some(FileType::Directory) {
                unlinkat(dir, name, AtFlags::empty())?;
                mkdirat(dir, name, IMPLIED)?;
            }
        }
        Err(errno) => return Err(errno.into()),
    }
    let made = open_dir(dir, name)?;
    if before == Before::Removed {
        hide(made.as_fd())?;
    }
    Ok(made)
}

fn hide(dir: BorrowedFd<'_>) -> Result<(), Trouble> {
    Ok(fsetxattr(dir, OPAQUE, b"y", XattrFlags::empty())?)
}

/// Says that `name` is gone: a character device 0/0, which everybody may make, or where the cache
/// itself lies on an overlay, which refuses those, an empty file that is marked.
fn whiteout(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Trouble> {
    match mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
    fsetxattr(&file, WHITEOUT, b"y", XattrFlags::empty())?;
    // In a directory with marked files an overlay looks for them only if it is told to.
    match fsetxattr(dir, OPAQUE, b"x", XattrFlags::CREATE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
