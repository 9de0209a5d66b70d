//! The sandbox's own network.
//!
//! It takes the kernel as long as all mounts together. So a helper makes it while they are mounted:
//! a second process with the memory and the descriptors of the first, which leaves the network
//! behind as a descriptor. Invariant 4 holds for it as well.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::{io::Errno, process::Pid};

use crate::{
    clone::{Stack, branch_off},
    sys,
};

/// Room for the helper.
const STACK: usize = 16 * 1024;

/// What a network is made on.
#[derive(Debug)]
pub(crate) struct Bench {
    stack: Stack,
    /// The descriptor of the network, or an errno below zero; 0 until either is known.
    made: AtomicI32,
}

impl Bench {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { stack: Stack::of(STACK)?, made: AtomicI32::new(0) })
    }

    /// Has a helper begin to make a network; returns its process.
    pub(super) fn begin(&self) -> Result<Pid, Errno> {
        // SAFETY: the parent keeps `self` until this process and so its helper are gone or have
        // executed the guest, before which `finish` waits for the helper. `help` allocates nothing
        // and never returns.
        let helper = unsafe { branch_off(&self.stack, help, &raw const self.made) }?;
        Pid::from_raw(helper).ok_or(Errno::INVAL)
    }

    /// Whether the helper has done its work.
    pub(super) fn is_made(&self) -> bool {
        self.made.load(Ordering::Relaxed) != 0
    }

    /// Waits for the helper and enters the network that it has made.
    pub(super) fn finish(&self, helper: Pid) -> Result<(), Errno> {
        let all = libc::__WALL.unsigned_abs() as usize;
        let waited = || {
            let helper = helper.as_raw_nonzero().get().unsigned_abs() as usize;
            // SAFETY: no status and no usage are asked for.
            unsafe { sys::call(libc::SYS_wait4, [helper, 0, all, 0, 0]) }
        };
        while waited() == Err(Errno::INTR) {}
        match self.made.load(Ordering::Acquire) {
            0 => Err(Errno::CHILD),
            errno @ ..0 => Err(Errno::from_raw_os_error(-errno)),
            network => enter(network),
        }
    }
}

fn enter(network: RawFd) -> Result<(), Errno> {
    let network = network.unsigned_abs() as usize;
    let kind = libc::CLONE_NEWNET.unsigned_abs() as usize;
    // SAFETY: setns takes two numbers.
    unsafe { sys::call(libc::SYS_setns, [network, kind, 0, 0, 0]) }?;
    // SAFETY: the helper has left it to us.
    unsafe { sys::call(libc::SYS_close, [network, 0, 0, 0, 0]) }.map(drop)
}

/// The helper's whole life.
extern "C" fn help(made: *const AtomicI32) -> ! {
    // SAFETY: whoever began this waits for its end before letting go of it.
    let made = unsafe { &*made };
    let result = make().and_then(|socket| network_of(&socket));
    made.store(result.unwrap_or_else(|errno| -errno.raw_os_error()), Ordering::Release);
    sys::exit(0)
}

/// Leaves the host's network for an empty one, with loopback switched on; returns a socket in it.
pub(super) fn make() -> Result<OwnedFd, Errno> {
    let flag = libc::CLONE_NEWNET.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [flag, 0, 0, 0, 0]) }?;
    loopback_up()
}

/// A descriptor of the network that `socket` is in. `/proc` would have it too, but may be covered.
fn network_of(socket: &OwnedFd) -> Result<RawFd, Errno> {
    let socket = socket.as_raw_fd().unsigned_abs() as usize;
    // SAFETY: this ioctl takes no argument.
    let network = unsafe { sys::call(libc::SYS_ioctl, [socket, SIOCGSKNS, 0, 0, 0]) }?;
    i32::try_from(network).map_err(|_| Errno::BADF)
}

/// Which network a socket is in; Linux 4.9.
const SIOCGSKNS: usize = 0x894C;

#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

fn loopback_up() -> Result<OwnedFd, Errno> {
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
    unsafe { sys::call(libc::SYS_ioctl, args) }?;
    Ok(socket)
}
