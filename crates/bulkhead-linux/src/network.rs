//! The sandbox's own network.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
};

use crate::sys;

/// Leaves the host's network for an empty one, and returns a socket in it.
///
/// Allocates nothing: it runs in a child that shares memory.
pub(crate) fn leave() -> Result<OwnedFd, Errno> {
    let flag = libc::CLONE_NEWNET.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [flag, 0, 0, 0, 0]) }?;
    socket()
}

/// A socket in the network that this process is in.
pub(crate) fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Switches loopback on in the network that `socket` is in, for whoever has the right to: those who
/// have made it, and their parents.
pub(crate) fn switch_loopback_on(socket: BorrowedFd<'_>) -> Result<(), Errno> {
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
