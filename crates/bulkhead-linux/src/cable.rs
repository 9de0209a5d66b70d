//! A cable from a sandbox's network to whoever holds its other end.
//!
//! An interface inside is one of a pair; what leaves by it arrives at the other, where a socket
//! takes it before the kernel does, and what is sent there arrives inside. So two sandboxes are
//! joined by passing on what their sockets take, without a bridge, a device file or a privilege
//! outside. The kernel itself has no use for what arrives at the far interface: it comes from its
//! own address, and nothing is routed there.
//!
//! All interfaces of this kind have the same hardware address, so what leaves one is addressed to
//! every other. What is taken and sent begins with [`PREFIX`] bytes in which the kernel says what it
//! has left to be done (checksums, cutting to size), which the next kernel reads.

use std::{
    mem::size_of,
    net::Ipv4Addr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with},
};

use crate::{
    netlink::{About, Request},
    sys,
};

/// How long the kernel's own words before each packet are, as `struct virtio_net_hdr`.
pub const PREFIX: usize = 10;

/// The hardware address of every interface of this kind.
pub const HARDWARE: [u8; 6] = [0x02, 0xb0, 0x1c, 0x4e, 0xad, 0x01];

/// The network that all such interfaces are in, whoever they are joined with.
pub const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// How many bits of an address are the network's.
const PREFIX_LENGTH: u8 = 24;

/// The interfaces, by number and by name; nobody else makes any in this namespace.
const INSIDE: (u32, &[u8]) = (100, b"lan0\0");
const OUTSIDE: (u32, &[u8]) = (101, b"cable0\0");

/// Where attributes are for, as the kernel numbers them; libc has no names for these.
const VETH_INFO_PEER: u16 = 1;

/// Version 4, the only one that is spoken there.
const IP: u16 = 0x0800;

/// Lays a cable to this namespace, whose address by it is `address`, and returns its other end,
/// which does not block.
pub(crate) fn lay(address: Ipv4Addr) -> Result<OwnedFd, Errno> {
    let mut request = Request::new();
    pair(&mut request)?;
    // Neither can be switched on before both are there.
    switched_on(&mut request, OUTSIDE.0)?;
    switched_on(&mut request, INSIDE.0)?;
    addressed(&mut request, address)?;
    routed(&mut request)?;
    request.send(None)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol nothing arrives until it is bound to one interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None::<Protocol>)?;
    option(socket.as_fd(), libc::PACKET_VNET_HDR)?;
    option(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING)?;
    bind(socket.as_fd())?;
    Ok(socket)
}

/// `ip link add lan0 address … type veth peer name cable0`
fn pair(request: &mut Request) -> Result<(), Errno> {
    let message = request.message(libc::RTM_NEWLINK, About::New, 1)?;
    interface(request, INSIDE.0, 0)?;
    request.attribute(libc::IFLA_IFNAME, INSIDE.1)?;
    request.attribute(libc::IFLA_ADDRESS, &HARDWARE)?;
    let info = request.nest(libc::IFLA_LINKINFO)?;
    request.attribute(libc::IFLA_INFO_KIND, b"veth")?;
    let data = request.nest(libc::IFLA_INFO_DATA)?;
    let peer = request.nest(VETH_INFO_PEER)?;
    interface(request, OUTSIDE.0, 0)?;
    request.attribute(libc::IFLA_IFNAME, OUTSIDE.1)?;
    request.unnest(peer)?;
    request.unnest(data)?;
    request.unnest(info)?;
    request.end(message)
}

/// `ip link set … arp off up`: nobody is asked for hardware addresses, as they are all the same.
fn switched_on(request: &mut Request, number: u32) -> Result<(), Errno> {
    let message = request.message(libc::RTM_NEWLINK, About::Known, 4)?;
    interface(request, number, libc::IFF_UP | libc::IFF_NOARP)?;
    request.end(message)
}

/// As `struct ifinfomsg`.
fn interface(request: &mut Request, number: u32, flags: i32) -> Result<(), Errno> {
    request.put(&[0; 4])?;
    request.put(&number.to_ne_bytes())?;
    request.put(&flags.to_ne_bytes())?;
    request.put(&flags.to_ne_bytes())
}

/// `ip address add ADDRESS/32 dev lan0`
fn addressed(request: &mut Request, address: Ipv4Addr) -> Result<(), Errno> {
    let message = request.message(libc::RTM_NEWADDR, About::New, 2)?;
    request.put(&[AddressFamily::INET.as_raw() as u8, 32, 0, libc::RT_SCOPE_UNIVERSE])?;
    request.put(&INSIDE.0.to_ne_bytes())?;
    request.attribute(libc::IFA_LOCAL, &address.octets())?;
    request.attribute(libc::IFA_ADDRESS, &address.octets())?;
    request.end(message)
}

/// `ip route add NETWORK dev lan0 table local`: before the route that makes every address local,
/// which is in that table and is shorter.
fn routed(request: &mut Request) -> Result<(), Errno> {
    let message = request.message(libc::RTM_NEWROUTE, About::New, 3)?;
    request.put(&[AddressFamily::INET.as_raw() as u8, PREFIX_LENGTH, 0, 0])?;
    request.put(&[
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
    ])?;
    request.put(&0_u32.to_ne_bytes())?;
    request.attribute(libc::RTA_DST, &NETWORK.octets())?;
    request.attribute(libc::RTA_OIF, &INSIDE.0.to_ne_bytes())?;
    request.end(message)
}

/// Switches an option of packet sockets on.
fn option(socket: BorrowedFd<'_>, name: i32) -> Result<(), Errno> {
    let on: i32 = 1;
    let args = [
        socket.as_raw_fd().unsigned_abs() as usize,
        libc::SOL_PACKET.unsigned_abs() as usize,
        name.unsigned_abs() as usize,
        (&raw const on).addr(),
        size_of::<i32>(),
    ];
    // SAFETY: the value is a number that lives longer than the call, and its size is said.
    unsafe { sys::call(libc::SYS_setsockopt, args) }.map(drop)
}

/// Takes what arrives at the far interface, and nothing else.
fn bind(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let at = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET.unsigned_abs() as u16,
        sll_protocol: IP.to_be(),
        sll_ifindex: OUTSIDE.0.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>();
    let args =
        [socket.as_raw_fd().unsigned_abs() as usize, (&raw const at).addr(), length, 0, 0];
    // SAFETY: the address is whole, lives longer than the call, and its size is said.
    unsafe { sys::call(libc::SYS_bind, args) }.map(drop)
}
