//! One attempt in a process of its own.
//!
//! As root, an attempt that must be refused is also made without a filter, where it must end
//! otherwise: that tests the test.

use std::ffi::{c_int, c_long};
use std::io;

use bulkhead_linux::seccomp::{Filter, Profile, filter};

/// How an attempt in a process of its own ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Succeeded,
    Failed(c_int),
    Signalled(c_int),
}

/// What came of an attempt, or the errno it failed with.
pub(super) type Outcome = Result<(), c_int>;

/// No errno is as large; a child ends with it if it could not put the filter on.
const NO_FILTER: c_int = 250;

/// Makes the attempt in a child, which puts on the filter first if there is one.
pub(super) fn attempt(filter: Option<&Filter>, attack: impl FnOnce() -> Outcome) -> Ended {
    // SAFETY: between here and `_exit` the child only makes system calls, which is sound in a
    // copy of a process with many threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", io::Error::last_os_error());
    if child == 0 {
        let installed = filter.is_none_or(|filter| {
            rustix::thread::set_no_new_privs(true).is_ok() && filter.install().is_ok()
        });
        let code = match installed.then(attack) {
            None => NO_FILTER,
            Some(Err(errno)) => errno,
            Some(Ok(())) => 0,
        };
        // SAFETY: it ends the process without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "waitpid: {}", io::Error::last_os_error());
    if libc::WIFSIGNALED(status) {
        return Ended::Signalled(libc::WTERMSIG(status));
    }
    match libc::WEXITSTATUS(status) {
        0 => Ended::Succeeded,
        code => {
            assert_ne!(code, NO_FILTER, "the filter could not be installed");
            Ended::Failed(code)
        }
    }
}

/// Makes a system call with these arguments.
pub(super) fn call<const COUNT: usize>(number: c_long, args: [u64; COUNT]) -> Outcome {
    let mut registers = [0; 4];
    registers[..COUNT].copy_from_slice(&args);
    let [first, second, third, fourth] = registers;
    // SAFETY: the calls tried here are refused, or get no address of ours but those that the
    // caller keeps alive.
    match unsafe { libc::syscall(number, first, second, third, fourth) } {
        -1 => Err(errno(&io::Error::last_os_error())),
        _ => Ok(()),
    }
}

pub(super) fn errno(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Tries a call that the profile must refuse with `errno`, and that ends otherwise without it.
pub(super) fn refused<const COUNT: usize>(
    profile: Profile,
    number: c_long,
    args: [u64; COUNT],
    errno: c_int,
) {
    let walled = attempt(Some(&filter(profile)), || call(number, args));
    assert_eq!(walled, Ended::Failed(errno), "call {number} under {profile:?}");
    // To an ordinary user the kernel itself refuses some of it, in the same words.
    if rustix::process::geteuid().is_root() {
        let free = attempt(None, || call(number, args));
        assert_ne!(free, walled, "call {number} fails like this without a filter too");
    }
}
