//! Copies the private disk of a living sandbox.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
};

use bulkhead_guest::layer::{CopyOrder, Entry, Part, Place};
use bulkhead_linux::{
    doors,
    identity::namespace_of,
    mounts::{self, Attributes},
};
use rustix::{
    fs::{Gid, Mode, Uid},
    process::Pid,
};

use crate::{
    BackendError, Copied, Extent,
    copying::{DIR, copy},
    identity::{INSIDE, Identity, Translations},
    workspace::share::{Share, c_path},
};

/// What is known of a sandbox's disk.
#[derive(Debug)]
pub(super) struct Source {
    base: Mutex<Base>,
    /// Where it is kept, if that is not the base.
    kept: Option<Share>,
    parts: Vec<Part>,
    identity: Identity,
}

/// The directory that holds the parts, for as long as somebody may want it.
#[derive(Debug)]
enum Base {
    /// It comes on this stream.
    Coming(OwnedFd),
    Here(OwnedFd),
    Gone,
}

impl Source {
    pub(super) fn new(
        orders: OwnedFd,
        parts: Vec<Part>,
        kept: Option<Share>,
        identity: Identity,
    ) -> Self {
        Self { base: Mutex::new(Base::Coming(orders)), kept, parts, identity }
    }

    /// Lets go of a disk that nobody will copy. Whoever holds it last clears it away, and the kernel
    /// does so beside us if that is the last process of the sandbox.
    pub(super) fn let_go(&self) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = Base::Gone;
    }

    /// Copies the disk of the sandbox of which `first` is a process, into the empty directory
    /// `layer`.
    pub(super) async fn copy(
        &self,
        (first, pid): (BorrowedFd<'_>, Pid),
        layer: &Path,
    ) -> Result<Copied, BackendError> {
        let failed = |source| BackendError::System { action: "copy the disk", source };
        let base = self.base(first).map_err(failed)?;
        let layer = self.layer(pid, layer).map_err(failed)?;
        let wanted = CopyOrder {
            parts: self.parts.clone(),
            user: INSIDE,
            entry: Entry::Process,
            place: Place::Empty,
        };
        let (bytes, files) = copy(&wanted, [first, base.as_fd(), layer.as_fd()]).await?;
        Ok(Copied { bytes, files, extent: Extent::Changes })
    }

    /// Where the copy is made to. What is in a layer has the owner that it has inside, whoever the
    /// sandbox is outside: so the namespace of each sandbox that begins with it translates it.
    fn layer(&self, pid: Pid, layer: &Path) -> io::Result<OwnedFd> {
        match self.identity {
            Identity::Own { .. } => Ok(rustix::fs::open(layer, DIR, Mode::empty())?),
            Identity::Mapped { .. } => {
                let (uid, gid) = (Uid::from_raw(INSIDE), Gid::from_raw(INSIDE));
                rustix::fs::chown(layer, Some(uid), Some(gid))?;
                let (path, owners) = (c_path(layer), namespace_of(pid)?);
                let inode = mounts::look(&path)?.inode;
                let tree = mounts::translated(&path, inode, Attributes::ReadWrite, &owners)?;
                Ok(rustix::fs::openat(tree, ".", DIR, Mode::empty())?)
            }
        }
    }

    /// The directory that holds the parts.
    fn base(&self, first: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        if let Some(kept) = &self.kept {
            return self.translated(kept);
        }
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        if let Base::Coming(orders) = &*base {
            let came = doors::receive(orders.as_fd(), first)?.into_iter().next();
            *base = came.map_or(Base::Gone, Base::Here);
        }
        match &*base {
            Base::Here(base) => base.try_clone(),
            Base::Coming(_) | Base::Gone => Err(io::Error::other("the sandbox has ended")),
        }
    }
}

impl Source {
    /// The place where the disk is kept, as the sandbox sees it: as its own.
    fn translated(&self, kept: &Share) -> io::Result<OwnedFd> {
        match self.identity {
            Identity::Own { .. } => Ok(rustix::fs::open(&kept.from, DIR, Mode::empty())?),
            Identity::Mapped { outside } => {
                let mut translations = Translations::default();
                let owners = translations.of(kept.looked.owner, outside)?;
                let inode = kept.looked.inode;
                mounts::translated(&c_path(&kept.from), inode, Attributes::ReadOnly, owners)
            }
        }
    }
}
