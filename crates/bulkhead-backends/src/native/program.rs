//! The guest as a file that nobody can change: laid down once for all sandboxes of a user, or kept in
//! memory where nothing can be run from the place where it would lie.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::Arc,
};

use bulkhead_linux::{
    memfd::Unsealed,
    mounts::{Inode, look},
    steps::Step,
};
use rustix::{
    fs::{FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, open, statvfs},
    process::geteuid,
};

use super::lower::Line;
use crate::{guest::GUEST, identity::Identity, props};

/// What a child becomes.
#[derive(Debug)]
pub(super) enum Program {
    /// Written while the child does something else.
    Own(Unsealed),
    /// Written before, and not by the user that the sandbox is.
    Shared(Arc<OwnedFd>),
    /// Laid by the user that the sandbox is, who must not write to it from inside.
    Laid { path: CString, inode: Inode },
}

impl Program {
    /// `shared`, if it was written, or what was laid below `state`, or else a file that is still to be
    /// written.
    pub(super) fn of(
        shared: Option<&Arc<OwnedFd>>,
        state: &Path,
        identity: &Identity,
    ) -> io::Result<Self> {
        if let Some(shared) = shared {
            return Ok(Self::Shared(Arc::clone(shared)));
        }
        match laid(state, identity) {
            Some(laid) => Ok(laid),
            None => Unsealed::create().map(Self::Own),
        }
    }

    /// For the sandboxes of this process and of its copies; nothing where one is laid for everybody.
    pub(super) fn for_many(
        state: &Path,
        identity: &Identity,
    ) -> io::Result<Option<Arc<OwnedFd>>> {
        // Where it cannot be laid it is kept in memory.
        props::lay(state).ok();
        match laid(state, identity) {
            Some(_) => Ok(None),
            None => Unsealed::create()?.seal(GUEST).map(Arc::new).map(Some),
        }
    }

    /// Its descriptor, if it has one.
    pub(super) fn number(&self) -> Option<RawFd> {
        match self {
            Self::Own(unsealed) => Some(unsealed.file().as_raw_fd()),
            Self::Shared(sealed) => Some(sealed.as_raw_fd()),
            Self::Laid { .. } => None,
        }
    }

    /// What the child does to find it, if it has no descriptor.
    pub(super) fn line(&self) -> Option<Line> {
        match self {
            Self::Own(_) | Self::Shared(_) => None,
            Self::Laid { path, inode } => {
                Some(Line::Do(Step::Guest { source: path.clone(), expect: *inode }))
            }
        }
    }

    /// Makes it whole; it is to be held until the child has become it.
    pub(super) fn sealed(self) -> io::Result<Option<Arc<OwnedFd>>> {
        match self {
            Self::Own(unsealed) => unsealed.seal(GUEST).map(Arc::new).map(Some),
            Self::Shared(sealed) => Ok(Some(sealed)),
            Self::Laid { .. } => Ok(None),
        }
    }
}

/// The guest below `state`, if it is there and can be run from there.
fn laid(state: &Path, identity: &Identity) -> Option<Program> {
    let path = CString::new(props::guest(state).as_os_str().as_bytes()).ok()?;
    let runs = |flags: StatVfsMountFlags| !flags.contains(StatVfsMountFlags::NOEXEC);
    match identity {
        // It belongs to the host's root, who is nobody inside.
        Identity::Mapped { .. } => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = open(path.as_c_str(), flags, Mode::empty()).ok()?;
            // Whoever else can write to the directory cannot put something else there.
            let ours = fstat(&file).ok()?.st_uid == geteuid().as_raw();
            let runs = ours && runs(fstatvfs(&file).ok()?.f_flag);
            runs.then(|| Program::Shared(Arc::new(file)))
        }
        Identity::Own { .. } => {
            let looked = look(&path).ok()?;
            let ours = looked.owner.0 == geteuid().as_raw();
            let whole = looked.kind == FileType::RegularFile && ours;
            let inode = looked.inode;
            let runs = whole && runs(statvfs(path.as_c_str()).ok()?.f_flag);
            runs.then_some(Program::Laid { path, inode })
        }
    }
}
