//! Being told that a child has ended.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
};

use crate::sys;

/// Ends this process, and tidies nothing up: the kernel does, and somebody waits for it.
pub fn end(code: u8) -> ! {
    sys::exit(code.into())
}

/// Readable when a child has ended, whoever's child it was before.
///
/// While this lives, the signal is held back from this thread; [`crate::launch`] gives it back to
/// the programs that it starts.
pub struct ChildSignal(OwnedFd);

impl ChildSignal {
    /// Holds the signal back and watches for it instead.
    pub fn watch() -> io::Result<Self> {
        // SAFETY: an all-zero set is a valid one to initialise.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a signal set of ours.
        unsafe { libc::sigemptyset(&raw mut set) };
        // SAFETY: as above, and the signal exists.
        unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
        // SAFETY: both sets are valid or null.
        if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is a valid signal set.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes the news in; children are then to be waited for until there is none left.
    pub fn clear(&self) -> io::Result<()> {
        match rustix::io::read(&self.0, &mut [0_u8; 128]) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for ChildSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Processor time in microseconds, and the memory of the largest in KiB, of all children that were
/// waited for, and of theirs.
pub fn children_used() -> (u64, u64) {
    // SAFETY: an all-zero `rusage` is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a whole `rusage`.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return (0, 0);
    }
    let micros = |it: libc::timeval| {
        let seconds = u64::try_from(it.tv_sec).unwrap_or_default();
        seconds * 1_000_000 + u64::try_from(it.tv_usec).unwrap_or_default()
    };
    let largest = u64::try_from(usage.ru_maxrss).unwrap_or_default();
    (micros(usage.ru_utime) + micros(usage.ru_stime), largest)
}
