//! What a hostile program tries, tried in a real process under the real filter.

use std::ffi::c_long;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;

use bulkhead_linux::seccomp::{Arch, Profile, Verdict, filter};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use super::attempt::{Ended, attempt, call, errno, refused};

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
    fn getpid_by_the_old_door() -> Result<(), i32> {
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
