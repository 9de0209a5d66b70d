//! Being told that a child has ended.

use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
};

use crate::{
    clone::{Stack, branch_off},
    offspring::has_one_thread,
    sys,
};

/// Ends this process, and tidies nothing up: the kernel does, and somebody waits for it.
pub fn end(code: u8) -> ! {
    sys::exit(code.into())
}

/// Room for whoever stays behind, who is no small loop; only what is used of it is paid for.
const STACK: usize = 512 * 1024;

/// Ends this process like [`end`], and leaves `work` to a process that stays behind for it: it has
/// this one's memory and descriptors, but for input and output. So nobody waits for that work, nor
/// for the kernel to take back what this process has.
///
/// Whoever has other threads does the work first.
pub fn end_leaving(code: u8, work: impl FnOnce()) -> ! {
    let work = Cell::new(Some(work));
    if has_one_thread("/proc/self/task")
        && let Ok(stack) = Stack::of(STACK)
    {
        // SAFETY: there is no other thread, and this one only ends its process if there is a child,
        // which keeps the memory with `stack` and `work` in it.
        let child = unsafe { branch_off(&stack, stay_behind, &raw const work) };
        if child.is_ok() {
            end(code);
        }
    }
    if let Some(work) = work.take() {
        work();
    }
    end(code)
}

extern "C" fn stay_behind<F: FnOnce()>(work: *const Cell<Option<F>>) -> ! {
    // SAFETY: whoever made us only ends, so it is there and ours alone.
    let work = unsafe { &*work };
    // A reader who waits for the end of our output need not wait for us, and who ends all programs
    // of a terminal does not mean us. Both fail for nobody who could do anything about it.
    rustix::process::setsid().ok();
    // SAFETY: close_range takes three numbers; nobody uses these descriptors any more.
    unsafe { sys::call(libc::SYS_close_range, [0, 2, 0, 0, 0]) }.ok();
    if let Some(work) = work.take() {
        work();
    }
    end(0)
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
        // A caller that ignores it would have us ignore it, too, and the kernel tell of no child.
        // SAFETY: the default action needs no handler.
        if unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
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
