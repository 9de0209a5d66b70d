//! What a hostile program tries, tried in a real process under the real filter.
//!
//! As root, each attempt is also made without a filter, where it must end otherwise: that tests
//! the test.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;

use bulkhead_linux::seccomp::{Arch, Filter, Profile, Verdict, filter};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

/// How an attempt in a process of its own ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Succeeded,
    Failed(c_int),
    Signalled(c_int),
}

/// What came of an attempt, or the errno it failed with.
type Outcome = Result<(), c_int>;

/// No errno is as large; a child ends with it if it could not put the filter on.
const NO_FILTER: c_int = 250;

/// Makes the attempt in a child, which puts on the filter first if there is one.
fn attempt(filter: Option<&Filter>, attack: impl FnOnce() -> Outcome) -> Ended {
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
fn call(number: c_long, args: [u64; 3]) -> Outcome {
    let [first, second, third] = args;
    // SAFETY: the calls tried here are refused, or get no address of ours but those that the
    // caller keeps alive.
    match unsafe { libc::syscall(number, first, second, third) } {
        -1 => Err(errno(&io::Error::last_os_error())),
        _ => Ok(()),
    }
}

fn errno(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Tries a call that the profile must refuse with `errno`, and that ends otherwise without it.
fn refused(profile: Profile, number: c_long, args: [u64; 3], errno: c_int) {
    let walled = attempt(Some(&filter(profile)), || call(number, args));
    assert_eq!(walled, Ended::Failed(errno), "call {number} under {profile:?}");
    // To an ordinary user the kernel itself refuses some of it, in the same words.
    if rustix::process::geteuid().is_root() {
        let free = attempt(None, || call(number, args));
        assert_ne!(free, walled, "call {number} fails like this without a filter too");
    }
}

#[test]
fn no_user_namespace() {
    for profile in [Profile::Standard, Profile::Debug] {
        refused(profile, libc::SYS_unshare, [0x1000_0000, 0, 0], libc::EPERM);
        refused(profile, libc::SYS_clone, [0x1000_0011, 0, 0], libc::EPERM);
    }
}

#[test]
fn clone3_and_io_uring_are_absent() {
    refused(Profile::Standard, libc::SYS_clone3, [0, 0, 0], libc::ENOSYS);
    refused(Profile::Standard, libc::SYS_io_uring_setup, [1, 0, 0], libc::ENOSYS);
    refused(Profile::Standard, libc::SYS_io_uring_enter, [0, 0, 0], libc::ENOSYS);
    refused(Profile::Standard, libc::SYS_io_uring_register, [0, 0, 0], libc::ENOSYS);
}

#[test]
fn no_keys_no_bpf_no_perf_no_userfaultfd() {
    for number in [
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_mount,
        libc::SYS_fsopen,
        libc::SYS_setns,
        libc::SYS_process_vm_readv,
    ] {
        // An argument that is wrong for all of them, for the free attempt to fail harmlessly.
        refused(Profile::Standard, number, [u64::MAX, u64::MAX, u64::MAX], libc::EPERM);
    }
}

#[test]
fn no_socket_of_an_unusual_kind() {
    let stream = 1;
    let vsock = [40, stream, 0];
    refused(Profile::Standard, libc::SYS_socket, vsock, libc::EAFNOSUPPORT);
    let raw = [2, 3, 1];
    refused(Profile::Standard, libc::SYS_socket, raw, libc::EAFNOSUPPORT);
    let packet = [17, 3, 0];
    refused(Profile::Standard, libc::SYS_socket, packet, libc::EAFNOSUPPORT);
    // This kernel may have been built without AF_ALG, and then answers the same.
    let walled =
        attempt(Some(&filter(Profile::Standard)), || call(libc::SYS_socket, [38, 5, 0]));
    assert_eq!(walled, Ended::Failed(libc::EAFNOSUPPORT));
}

#[test]
fn only_the_debug_profile_traces() {
    let trace_me = [0, 0, 0];
    refused(Profile::Standard, libc::SYS_ptrace, trace_me, libc::EPERM);
    let traced = attempt(Some(&filter(Profile::Debug)), || call(libc::SYS_ptrace, trace_me));
    assert_eq!(traced, Ended::Succeeded);
}

#[test]
fn a_terminal_cannot_be_typed_into() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    let descriptor = u64::try_from(terminal.as_raw_fd()).unwrap();
    let typed = b'x';
    let address = (&raw const typed).addr() as u64;
    for request in [0x5412, 0x5412 | 1 << 32] {
        let args = [descriptor, request, address];
        refused(Profile::Standard, libc::SYS_ioctl, args, libc::EPERM);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_door_of_32_bit_programs_ends_the_process() {
    fn getpid_by_the_old_door() -> Outcome {
        let mut answer: u64 = 20;
        // SAFETY: call 20 takes no argument and touches no memory; older kernels clear r8 to r11.
        unsafe {
            std::arch::asm!(
                "int 0x80",
                inout("rax") answer,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        if answer == 0 { Err(libc::EIO) } else { Ok(()) }
    }
    let walled = attempt(Some(&filter(Profile::Standard)), getpid_by_the_old_door);
    let free = attempt(None, getpid_by_the_old_door);
    match free {
        Ended::Succeeded => assert_eq!(walled, Ended::Signalled(libc::SIGSYS)),
        // The kernel has no such door.
        Ended::Signalled(signal) => assert_eq!(walled, Ended::Signalled(signal)),
        Ended::Failed(errno) => panic!("getpid cannot fail, but did with {errno}"),
    }
}

#[test]
fn the_kernel_refuses_what_the_interpreter_says_it_does() {
    for profile in [Profile::Standard, Profile::Debug] {
        let filter = filter(profile);
        for number in (0..600).chain([0x4000_0000, 0x4000_0027, u32::MAX]) {
            let Verdict::Refuse(errno) = filter.verdict(Arch::NATIVE, number, [0; 6]) else {
                // To make every allowed call without arguments would end or hang the test.
                continue;
            };
            let ended = attempt(Some(&filter), || call(c_long::from(number), [0; 3]));
            assert_eq!(ended, Ended::Failed(errno.code()), "call {number} under {profile:?}");
        }
    }
}

#[test]
fn without_no_new_privs_nothing_is_installed() {
    let filter = filter(Profile::Standard);
    let ended = attempt(None, || filter.install().map_err(|error| errno(&error)));
    assert_eq!(ended, Ended::Failed(libc::EACCES));
}

#[test]
fn every_thread_comes_under_the_filter() {
    let filter = filter(Profile::Standard);
    let ended = attempt(None, || {
        let (installed, wait) = mpsc::channel();
        let other = thread::spawn(move || match wait.recv() {
            Ok(()) => call(libc::SYS_keyctl, [0, 0, 0]),
            Err(_) => Err(libc::EIO),
        });
        rustix::thread::set_no_new_privs(true).map_err(rustix::io::Errno::raw_os_error)?;
        filter.install().map_err(|error| errno(&error))?;
        installed.send(()).map_err(|_| libc::EIO)?;
        other.join().map_err(|_| libc::EIO)?
    });
    assert_eq!(ended, Ended::Failed(libc::EPERM));
}
