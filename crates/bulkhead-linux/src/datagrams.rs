//! Datagrams on a socket that has many addresses: to which of them one came, and from which an
//! answer goes.

use std::{
    mem::MaybeUninit,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd as _},
    ptr,
};

use rustix::io::Errno;

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How long it is.
    pub length: usize,
    /// To what address it was sent.
    pub local: SocketAddr,
    /// Who sent it.
    pub peer: SocketAddr,
}

/// Room for one control message with the larger of the two addresses, aligned.
type Space = [u64; 8];

/// Has the kernel tell, with each datagram on the socket bound to `address`, where it was sent.
pub fn tell_local(socket: impl AsFd, address: SocketAddr) -> Result<(), Errno> {
    let (level, option) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the option is an int of the size passed.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size) } as isize)
        .map(drop)
}

/// Takes one datagram; `None` if it does not fit into `bytes` or the kernel did not tell where it
/// was sent.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<Option<Received>, Errno> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: an all-zero address is a valid one to be written to.
    let mut peer: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut space: Space = [0; 8];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = header(&mut peer, &mut vector, &mut space);
    // SAFETY: the header points to buffers of the lengths it says.
    let length = check(unsafe { libc::recvmsg(fd, &raw mut header, 0) })?;
    if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Ok(None);
    }
    let Some(peer) = address(&peer) else { return Ok(None) };
    let Some(ip) = local(&header) else { return Ok(None) };
    let port = rustix::net::getsockname(&socket)?;
    let port = SocketAddr::try_from(port)?.port();
    Ok(Some(Received { length, local: SocketAddr::new(ip, port), peer }))
}

/// Sends one datagram to `peer`, from the address `local`.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    peer: SocketAddr,
    local: IpAddr,
) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    let mut to = storage(peer);
    let mut space: Space = [0; 8];
    let base = bytes.as_ptr().cast_mut().cast();
    let mut vector = libc::iovec { iov_base: base, iov_len: bytes.len() };
    let mut header = header(&mut to, &mut vector, &mut space);
    header.msg_namelen = match peer {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    } as libc::socklen_t;
    match local {
        IpAddr::V4(local) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(local).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            put(&mut header, (libc::IPPROTO_IP, libc::IP_PKTINFO), info);
        }
        IpAddr::V6(local) => {
            let address = libc::in6_addr { s6_addr: local.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            put(&mut header, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info);
        }
    }
    // SAFETY: the header points to buffers of the lengths it says; sending writes to none.
    check(unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_NOSIGNAL) }).map(drop)
}

fn header(
    address: &mut libc::sockaddr_storage,
    vector: &mut libc::iovec,
    space: &mut Space,
) -> libc::msghdr {
    // SAFETY: an all-zero header is a valid, empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = ptr::from_mut(address).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_iov = vector;
    header.msg_iovlen = 1;
    header.msg_control = space.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Space>() as _;
    header
}

/// Puts the one control message of a header that has room for it.
fn put<T>(header: &mut libc::msghdr, (level, kind): (i32, i32), content: T) {
    let size = size_of::<T>() as u32;
    // SAFETY: the room is aligned, and larger than any of the contents with its head.
    let message = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: as above, so the first message is there.
    let Some(head) = (unsafe { message.as_mut() }) else { return };
    head.cmsg_level = level;
    head.cmsg_type = kind;
    // SAFETY: arithmetic only.
    head.cmsg_len = unsafe { libc::CMSG_LEN(size) } as _;
    // SAFETY: arithmetic inside the room of the message.
    let data = unsafe { libc::CMSG_DATA(message) };
    // SAFETY: there is room for the content, whatever its alignment.
    unsafe { data.cast::<T>().write_unaligned(content) };
    // SAFETY: arithmetic only.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as _;
}

/// To what address a datagram was sent, as its control message says.
fn local(header: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel has filled the header in.
    let message = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null or a message inside the room that the header points to.
    let head = unsafe { message.as_ref() }?;
    // SAFETY: arithmetic inside the room of the message.
    let data = unsafe { libc::CMSG_DATA(message) };
    match (head.cmsg_level, head.cmsg_type) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // SAFETY: the kernel puts this structure there.
            let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            // SAFETY: the kernel puts this structure there.
            let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
            Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn address(from: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let from = ptr::from_ref(from);
    // SAFETY: the storage is initialised, whatever it holds.
    match i32::from(unsafe { (*from).ss_family }) {
        libc::AF_INET => {
            // SAFETY: the family says what it holds, and the storage is large and aligned enough.
            let it = unsafe { from.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr));
            Some((ip, u16::from_be(it.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let it = unsafe { from.cast::<libc::sockaddr_in6>().read() };
            Some((Ipv6Addr::from(it.sin6_addr.s6_addr), u16::from_be(it.sin6_port)).into())
        }
        _ => None,
    }
}

fn storage(to: SocketAddr) -> libc::sockaddr_storage {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    match to {
        SocketAddr::V4(to) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*to.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large and aligned enough for every address.
            unsafe { storage.as_mut_ptr().cast::<libc::sockaddr_in>().write(address) };
        }
        SocketAddr::V6(to) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                sin6_scope_id: to.scope_id(),
            };
            // SAFETY: as above.
            unsafe { storage.as_mut_ptr().cast::<libc::sockaddr_in6>().write(address) };
        }
    }
    // SAFETY: zeroes are a valid address, and so is what was written over them.
    unsafe { storage.assume_init() }
}

fn check(answer: isize) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
