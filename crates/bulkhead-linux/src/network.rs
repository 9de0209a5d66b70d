//! The sandbox's own network.

use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

use crate::sys;

/// Leaves the host's network for an empty one, with loopback switched on.
///
/// Allocates nothing: it runs in a child that shares memory.
pub(crate) fn leave() -> Result<(), Errno> {
    let flag = libc::CLONE_NEWNET.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [flag, 0, 0, 0, 0]) }?;
    switch_loopback_on()
}

#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

fn switch_loopback_on() -> Result<(), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket =
        socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request =
        InterfaceRequest { name: [0; 16], flags: libc::IFF_UP as _, rest: [0; 22] };
    request.name.get_mut(..2).ok_or(Errno::INVAL)?.copy_from_slice(b"lo");
    let args = [
        socket.as_raw_fd().unsigned_abs() as usize,
        libc::SIOCSIFFLAGS as usize,
        (&raw const request).addr(),
        0,
        0,
    ];
    // SAFETY: `request` is a whole `ifreq` for this ioctl.
    unsafe { sys::call(libc::SYS_ioctl, args) }.map(drop)
}
