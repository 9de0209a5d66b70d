//! The guest as a file that nobody can change: written for one sandbox, or once for many.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
    sync::Arc,
};

use bulkhead_linux::memfd::Unsealed;

use crate::guest::GUEST;

/// What a child becomes.
#[derive(Debug)]
pub(super) enum Program {
    /// Written while the child does something else.
    Own(Unsealed),
    /// Written before.
    Shared(Arc<OwnedFd>),
}

impl Program {
    /// `shared`, if it was written, or else a file that is still to be written.
    pub(super) fn of(shared: Option<&Arc<OwnedFd>>) -> io::Result<Self> {
        match shared {
            Some(shared) => Ok(Self::Shared(Arc::clone(shared))),
            None => Unsealed::create().map(Self::Own),
        }
    }

    /// For the sandboxes of this process and of its copies.
    pub(super) fn for_many() -> io::Result<Arc<OwnedFd>> {
        Unsealed::create()?.seal(GUEST).map(Arc::new)
    }

    pub(super) fn number(&self) -> RawFd {
        match self {
            Self::Own(unsealed) => unsealed.file().as_raw_fd(),
            Self::Shared(sealed) => sealed.as_raw_fd(),
        }
    }

    /// The file, once it is whole.
    pub(super) fn sealed(self) -> io::Result<Arc<OwnedFd>> {
        match self {
            Self::Own(unsealed) => unsealed.seal(GUEST).map(Arc::new),
            Self::Shared(sealed) => Ok(sealed),
        }
    }
}
