//! Descriptors that a program is started with.

use std::{
    io,
    os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes charge of the open descriptor `number`, once in the life of a process.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("the descriptor was taken before"));
    }
    // SAFETY: whoever started this program left it to us, and the flag above lets only one caller
    // come here. If it is not open, that is found out before the value is used or dropped.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    match fcntl_getfd(&fd).and_then(|_| fcntl_setfd(&fd, FdFlags::CLOEXEC)) {
        Ok(()) => Ok(fd),
        Err(errno) => {
            std::mem::forget(fd);
            Err(errno.into())
        }
    }
}

/// A copy of the open descriptor `number`: the same file at the same place, shared with whoever else
/// writes to it.
pub fn copy(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is used for one call only, which fails if nothing is open there.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(original, 3)?)
}
