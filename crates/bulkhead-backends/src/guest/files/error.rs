//! Something about files could not be done.

use std::io;

use bulkhead_guest::protocol::files::{Filed, Kind};

use crate::BackendError;

/// Why something about files was not done.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The sandbox, or the host's own disk, refused.
    #[error(transparent)]
    System(io::Error),
    /// Its bytes cannot be read or written.
    #[error("it is {}, not a file", name(*.0))]
    NotAFile(Kind),
    /// There is more than was allowed.
    #[error("there is more than the {most} {what} that are allowed")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        most: u64,
    },
    /// As many watches as there can be are there.
    #[error("there are too many watches on this sandbox")]
    TooManyWatches,
    /// The sandbox sent something that no guest of ours sends.
    #[error("the guest broke the protocol: {0}")]
    Hostile(&'static str),
    /// The sandbox is gone.
    #[error(transparent)]
    Gone(BackendError),
}

impl FileError {
    /// What an answer says that is not the one that was hoped for.
    pub(super) fn unexpected(filed: &Filed) -> Self {
        match filed {
            Filed::Failed { errno } => Self::System(io::Error::from_raw_os_error(*errno)),
            Filed::NotAFile { kind } => Self::NotAFile(*kind),
            Filed::Done | Filed::Is(_) => Self::Hostile("an answer to another question"),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<rustix::io::Errno> for FileError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.into())
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Dir => "a directory",
        Kind::Link => "a symbolic link",
        Kind::Fifo => "a named pipe",
        Kind::Socket => "a socket",
        Kind::Device => "a device",
    }
}
