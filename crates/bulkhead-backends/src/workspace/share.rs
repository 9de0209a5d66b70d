//! What of the host is shared, as it was found.
//!
//! Invariant: a share is a real path and the inode that it led to. Whoever shows it inside compares
//! the two again, so that what is shown is what was looked at.

use std::{
    ffi::{CString, OsString},
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use bulkhead_linux::mounts::{Looked, look};
use bulkhead_spec::{Access, EnvFiles, Workspace, escape_bytes};
use rustix::fs::FileType;

use crate::BackendError;

/// One thing that the plan shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) access: Access,
    pub(crate) looked: Looked,
}

pub(crate) fn looked(path: &Path) -> io::Result<Looked> {
    let text = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    look(&text)
}

/// One thing to be shared, by its real path.
pub(crate) fn share(from: &Path, to: &Path, access: Access) -> Result<Share, BackendError> {
    let refused = |why: String| BackendError::Share {
        path: escape_bytes(from.as_os_str().as_bytes()),
        why,
    };
    let found = looked(from).map_err(|error| refused(error.to_string()))?;
    match found.kind {
        FileType::Directory | FileType::RegularFile => {}
        FileType::Symlink => {
            return Err(refused("it is a symbolic link; name what it leads to".to_owned()));
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            return Err(refused("it is neither a directory nor a regular file".to_owned()));
        }
    }
    // A link on the way would be followed in the sandbox's tree, not in the host's.
    let real = bulkhead_linux::paths::real(from).map_err(|error| refused(error.to_string()))?;
    let looked = looked(&real).map_err(|error| refused(error.to_string()))?;
    if looked.inode != found.inode {
        return Err(refused("it changed while it was looked at".to_owned()));
    }
    Ok(Share { from: real, to: to.to_owned(), access, looked })
}

/// Whether files that usually hold secrets are to be hidden.
pub(crate) fn hides_secrets(workspace: &Workspace) -> bool {
    workspace.env_files == EnvFiles::Hidden
}

/// A path from its bytes.
pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// A path or an option for a system call. Neither `HostPath` nor `GuestPath` can hold a NUL.
pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
