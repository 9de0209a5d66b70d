//! A user of one's own, for who is root in a namespace that somebody else has made.

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::unix::ffi::OsStringExt as _,
    ptr,
};

use rustix::process::{getgid, getuid};

use crate::{sys, walls};

/// Makes a user namespace in which we are the user and group `id` and nobody else exists.
///
/// What root has there by being root is given up for good. The namespace gives all capabilities to
/// who made it; they end when a program is executed.
///
/// The root of a namespace must have `CAP_SETFCAP` in it for that, as the kernel asks of whoever
/// has root stand for somebody.
pub fn become_user(id: u32) -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let flags = libc::CLONE_NEWUSER.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [flags, 0, 0, 0, 0]) }?;
    // Who may not choose groups may not leave them either: the kernel's condition for the map.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{id} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{id} {gid} 1"))?;
    walls::drop_bounding()?;
    Ok(walls::lock_securebits()?)
}

/// Executes this program again, with `argument` alone. Returns only why it could not.
pub fn start_again(argument: &CStr) -> io::Error {
    let path = std::env::current_exe().and_then(|path| {
        CString::new(path.into_os_string().into_vec()).map_err(io::Error::other)
    });
    let path = match path {
        Ok(path) => path,
        Err(error) => return error,
    };
    let argv = [path.as_ptr(), argument.as_ptr(), ptr::null()];
    let environment = [ptr::null()];
    // SAFETY: both lists end with a null pointer, and their strings live until the call returns.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}
