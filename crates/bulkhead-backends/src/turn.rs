//! Taking turns with the other Bulkheads of this user.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// Our turn to sweep, which ends when this is dropped; `None` if it is somebody else's.
pub(crate) fn take(runtime: &Path) -> io::Result<Option<File>> {
    std::fs::create_dir_all(runtime)?;
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(runtime.join("sweep"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
