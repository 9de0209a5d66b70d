//! Noticing, as a child that has not executed a program yet, that the parent is gone.
//!
//! The end of a stream does not tell it: every other such child has copies of the parent's end, so
//! two of them could wait for each other for ever.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{PidfdFlags, getpid, pidfd_open},
};

/// This process, for a child that is made after this: readable when it has ended.
pub(crate) fn parent_to_be() -> io::Result<OwnedFd> {
    Ok(pidfd_open(getpid(), PidfdFlags::empty())?)
}

/// Waits until `fd` is readable, or fails when `parent` has ended.
pub(crate) fn await_readable(fd: BorrowedFd<'_>, parent: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        let mut wanted = [fd, parent].map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        match poll(&mut wanted, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        match wanted.map(|it| !it.revents().is_empty()) {
            [true, _] => return Ok(()),
            [false, true] => return Err(Errno::PIPE),
            [false, false] => {}
        }
    }
}

/// Waits until `parent` has ended.
pub(crate) fn await_end(parent: BorrowedFd<'_>) {
    // A signal that does not end us is none of ours.
    while poll(&mut [PollFd::new(&parent, PollFlags::IN)], None) == Err(Errno::INTR) {}
}
