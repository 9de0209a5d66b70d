//! Makes every address in the world an address of this network namespace.
//!
//! A namespace whose only interface is loopback has nowhere to send to. With one route for each
//! family it has everywhere to receive: a program that connects to any address meets whoever
//! listens on that port in its own namespace, or is refused at once. What it wanted to reach is
//! the local address of the connection.
//!
//! The message is made by hand: this runs in a child that shares its parent's memory, see
//! [`crate`].

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    },
};

/// Header of a message, as `struct nlmsghdr`.
const HEADER: usize = 16;
/// What a message about a route says first, as `struct rtmsg`.
const ROUTE: usize = 12;
/// One attribute with a number of 32 bits, as `struct rtattr` and its value.
const ATTRIBUTE: usize = 8;
const MESSAGE: usize = HEADER + ROUTE + ATTRIBUTE;

/// Loopback is made with its namespace, as the first interface.
const LOOPBACK: u32 = 1;

/// Which route failed is told by the number of its message.
const FOUR: u32 = 4;
const SIX: u32 = 6;

/// Routes every address of both families to loopback, as this namespace's own.
///
/// A kernel without version 6 has nothing to be routed there.
pub(crate) fn own_every_address() -> Result<(), Errno> {
    // No protocol is protocol 0, which is `NETLINK_ROUTE`.
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = [0_u8; 2 * MESSAGE];
    let (four, six) = request.split_at_mut(MESSAGE);
    local_default(four, AddressFamily::INET, FOUR)?;
    local_default(six, AddressFamily::INET6, SIX)?;
    send(&socket, &request, SendFlags::empty())?;
    // The kernel has done it when `send` returns, and says only what failed.
    let mut answer = [0_u8; 512];
    loop {
        match recv(&socket, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => failure(answer.get(..length).unwrap_or_default())?,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Writes `ip route add local default dev lo table local` for `family` to `message`.
fn local_default(message: &mut [u8], family: AddressFamily, number: u32) -> Result<(), Errno> {
    let create = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut fill = Fill { left: message };
    fill.put(&(MESSAGE as u32).to_ne_bytes())?;
    fill.put(&libc::RTM_NEWROUTE.to_ne_bytes())?;
    fill.put(&(create.unsigned_abs() as u16).to_ne_bytes())?;
    fill.put(&number.to_ne_bytes())?;
    fill.put(&0_u32.to_ne_bytes())?;
    // Family, and the lengths of destination and source, of which none is given: all addresses.
    fill.put(&[family.as_raw() as u8, 0, 0, 0])?;
    fill.put(&[
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ])?;
    fill.put(&0_u32.to_ne_bytes())?;
    fill.put(&(ATTRIBUTE as u16).to_ne_bytes())?;
    fill.put(&libc::RTA_OIF.to_ne_bytes())?;
    fill.put(&LOOPBACK.to_ne_bytes())
}

/// A buffer that is filled from its start.
struct Fill<'a> {
    left: &'a mut [u8],
}

impl Fill<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let left = std::mem::take(&mut self.left);
        let (here, rest) = left.split_at_mut_checked(bytes.len()).ok_or(Errno::NOBUFS)?;
        here.copy_from_slice(bytes);
        self.left = rest;
        Ok(())
    }
}

/// What the kernel refused, if it was the family that every kernel has.
fn failure(answer: &[u8]) -> Result<(), Errno> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (Some(sequence), Some(error)) = (number(8), number(HEADER)) else {
        return Err(Errno::PROTO);
    };
    let errno = error.wrapping_neg().cast_signed();
    if errno == 0 || sequence == SIX {
        return Ok(());
    }
    Err(Errno::from_raw_os_error(errno))
}
