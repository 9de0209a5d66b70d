//! System calls without a C library between.
//!
//! The child of [`crate::clone`] shares memory, and with it `errno`, with a parent that goes on
//! running; so calls that rustix does not have are made here, and answer with their own error.

use std::ffi::CStr;

use rustix::io::Errno;

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: libc::c_long, args: [usize; 5]) -> Result<usize, Errno> {
    let [first, second, third, fourth, fifth] = args;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the kernel clobbers only rax, rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    check(answer)
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call `number` expects; pointers must be valid for it.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: libc::c_long, args: [usize; 5]) -> Result<usize, Errno> {
    let [first, second, third, fourth, fifth] = args;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the kernel clobbers only x0.
    unsafe {
        std::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first as isize => answer,
            in("x1") second, in("x2") third, in("x3") fourth, in("x4") fifth,
            options(nostack),
        );
    }
    check(answer)
}

pub(crate) fn check(answer: isize) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| {
        i32::try_from(answer.wrapping_neg()).map_or(Errno::INVAL, Errno::from_raw_os_error)
    })
}

/// The address of a C string, for [`call`].
pub(crate) fn address(text: &CStr) -> usize {
    text.as_ptr().addr()
}

/// Ends this child. There is no other way out of one that shares its parent's memory.
pub(crate) fn exit(code: usize) -> ! {
    // SAFETY: takes one number, and does not return.
    let returned = unsafe { call(libc::SYS_exit_group, [code, 0, 0, 0, 0]) };
    // A kernel that does not end us has no better use for us than to wait.
    loop {
        std::hint::black_box(&returned);
    }
}
