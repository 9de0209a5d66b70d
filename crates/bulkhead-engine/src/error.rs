//! What went wrong, and whose turn it is.

use std::io;

use bulkhead_backends::{BackendError, guest::files::FileError};
use bulkhead_policy::Denial;
use bulkhead_spec::Guarantees;

/// Bulkhead could not run the program.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The policy says no.
    #[error("the policy refuses this")]
    Denied(#[from] Denial),
    /// No backend keeps the promises that the plan requires.
    #[error("no backend here upholds {}", .lacking)]
    Unplaced {
        /// What the plan requires and the nearest backend lacks.
        lacking: Guarantees,
        /// Each of those with why not, and what would help.
        because: Vec<String>,
    },
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A room cannot do what was asked of it.
    #[error("{what}: {why}")]
    Room {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// Something about files of a room could not be done.
    #[error(transparent)]
    File(FileError),
    /// The host has no place for it now.
    #[error(transparent)]
    Busy(#[from] crate::rooms::Busy),
    /// The room was destroyed.
    #[error("the room is gone")]
    Gone,
    /// A secret that was promised to the sandbox has no value.
    #[error("the secret `{name}` has no value: {why}")]
    Secret {
        /// The variable that was to stand for it.
        name: String,
        /// Why.
        why: String,
    },
    /// The way out could not be opened.
    #[error(transparent)]
    WayOut(#[from] bulkhead_egress::StartFailed),
    /// What happens could not be recorded, so nothing may happen.
    #[error("could not write the record of this run to `{path}`")]
    Ledger {
        /// Where it was to be written.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Whose turn it is. Exit codes, HTTP statuses and MCP errors are all derived from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller may ask for less.
    Denied,
    /// The operator must provide a backend.
    Unavailable,
    /// The program is not there.
    NotFound,
    /// The program cannot be run.
    NotExecutable,
    /// The directory to start in is not there.
    NoDir,
    /// The file is not there.
    NoFile,
    /// Something is there already.
    Exists,
    /// It is not what it was taken for: a directory, a pipe, …
    NotAFile,
    /// The room may not touch it.
    Forbidden,
    /// There is no room left on the disk.
    DiskFull,
    /// The room is no longer there.
    Gone,
    /// The caller may try again later.
    Busy,
    /// We, or the host, must be mended.
    Internal,
}

impl RunError {
    /// Whose turn it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Denied(_) | Self::Room { .. } | Self::Secret { .. } => ErrorKind::Denied,
            Self::Unplaced { .. } => ErrorKind::Unavailable,
            Self::Backend(BackendError::NotFound { .. }) => ErrorKind::NotFound,
            Self::Backend(BackendError::NotExecutable { .. }) => ErrorKind::NotExecutable,
            Self::Backend(BackendError::Dir { .. }) => ErrorKind::NoDir,
            Self::Gone | Self::File(FileError::Gone(_)) => ErrorKind::Gone,
            Self::Busy(_) => ErrorKind::Busy,
            Self::File(error) => file_kind(error),
            Self::Backend(_) | Self::WayOut(_) | Self::Ledger { .. } => ErrorKind::Internal,
        }
    }

    /// What would help, if anything is known to.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Backend(error) => error.hint(),
            Self::Unplaced { .. } => Some("type: bulkhead doctor"),
            Self::Secret { .. } => {
                Some("name another place for it: --secret NAME=file:PATH@HOST")
            }
            Self::Busy(_) => {
                Some("try again in 5s, or end rooms that nobody needs: bulkhead ls")
            }
            Self::Denied(_)
            | Self::Room { .. }
            | Self::File(_)
            | Self::Gone
            | Self::WayOut(_)
            | Self::Ledger { .. } => None,
        }
    }

    /// The exit code by which a shell knows this error.
    pub fn exit_code(&self) -> u8 {
        match self.kind() {
            ErrorKind::NotFound => 127,
            ErrorKind::NotExecutable => 126,
            // As sysexits.h has it: it may work later.
            ErrorKind::Busy => 75,
            ErrorKind::Denied
            | ErrorKind::Unavailable
            | ErrorKind::Gone
            | ErrorKind::NoDir
            | ErrorKind::NoFile
            | ErrorKind::Exists
            | ErrorKind::NotAFile
            | ErrorKind::Forbidden
            | ErrorKind::DiskFull
            | ErrorKind::Internal => 125,
        }
    }
}

fn file_kind(error: &FileError) -> ErrorKind {
    match error {
        FileError::System(error) => {
            let known = [
                (io::ErrorKind::NotFound, ErrorKind::NoFile),
                (io::ErrorKind::AlreadyExists, ErrorKind::Exists),
                (io::ErrorKind::NotADirectory, ErrorKind::NotAFile),
                (io::ErrorKind::IsADirectory, ErrorKind::NotAFile),
                (io::ErrorKind::PermissionDenied, ErrorKind::Forbidden),
                (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Forbidden),
                (io::ErrorKind::StorageFull, ErrorKind::DiskFull),
                (io::ErrorKind::QuotaExceeded, ErrorKind::DiskFull),
                (io::ErrorKind::DirectoryNotEmpty, ErrorKind::Exists),
                // A name or a place that the kernel does not take, whoever asks.
                (io::ErrorKind::InvalidInput, ErrorKind::Denied),
                (io::ErrorKind::InvalidFilename, ErrorKind::Denied),
                (io::ErrorKind::CrossesDevices, ErrorKind::Denied),
                (io::ErrorKind::ResourceBusy, ErrorKind::Denied),
                (io::ErrorKind::ExecutableFileBusy, ErrorKind::Denied),
                (io::ErrorKind::FileTooLarge, ErrorKind::Denied),
            ];
            let found = known.iter().find(|(it, _)| *it == error.kind());
            // Links in a circle have no stable name yet.
            let circle = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
            let unknown = if circle { ErrorKind::Denied } else { ErrorKind::Internal };
            found.map_or(unknown, |(_, kind)| *kind)
        }
        FileError::NotAFile(_) => ErrorKind::NotAFile,
        FileError::TooMuch { .. } | FileError::TooManyWatches => ErrorKind::Denied,
        FileError::Hostile(_) | FileError::Gone(_) => ErrorKind::Internal,
    }
}
