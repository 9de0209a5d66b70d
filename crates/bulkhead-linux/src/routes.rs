//! Makes every address in the world an address of this network namespace.
//!
//! A namespace whose only interface is loopback has nowhere to send to. With one route for each
//! family it has everywhere to receive: a program that connects to any address meets whoever
//! listens on that port in its own namespace, or is refused at once. What it wanted to reach is
//! the local address of the connection.

use rustix::{io::Errno, net::AddressFamily};

use crate::netlink::{About, Request};

/// Loopback is made with its namespace, as the first interface.
const LOOPBACK: u32 = 1;

/// Which route failed is told by the number of its message.
const FOUR: u32 = 4;
const SIX: u32 = 6;

/// Routes every address of both families to loopback, as this namespace's own.
///
/// A kernel without version 6 has nothing to be routed there.
pub(crate) fn own_every_address() -> Result<(), Errno> {
    let mut request = Request::new();
    local_default(&mut request, AddressFamily::INET, FOUR)?;
    local_default(&mut request, AddressFamily::INET6, SIX)?;
    request.send(Some(SIX))
}

/// Adds `ip route add local default dev lo table local` for `family`.
fn local_default(
    request: &mut Request,
    family: AddressFamily,
    number: u32,
) -> Result<(), Errno> {
    let message = request.message(libc::RTM_NEWROUTE, About::Any, number)?;
    // Family, and the lengths of destination and source, of which none is given: all addresses.
    request.put(&[family.as_raw() as u8, 0, 0, 0])?;
    request.put(&[
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ])?;
    request.put(&0_u32.to_ne_bytes())?;
    request.attribute(libc::RTA_OIF, &LOOPBACK.to_ne_bytes())?;
    request.end(message)
}
