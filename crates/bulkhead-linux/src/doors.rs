//! Sockets that are opened inside a sandbox's network and answered from outside.
//!
//! A socket belongs to the network namespace in which it was made, whoever holds it. So the child
//! that becomes a sandbox opens a few, before it has given anything up, and sends them to its
//! parent; nothing that answers them runs inside.
//!
//! Invariant: no socket here can be bound a second time. None has `SO_REUSEADDR` or
//! `SO_REUSEPORT`, so a program inside that asks for the same port is told that it is taken.

use std::{
    fmt, fs,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    thread,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind,
        listen, recvmsg, sendmsg, socket_with, sockopt,
    },
    thread::{ThreadNameSpaceType, move_into_thread_name_spaces},
};

use crate::{cable, orphan::await_readable, routes::own_every_address};

/// The most doors that a sandbox can have.
pub const MOST: usize = 96;

/// Connections that may wait to be accepted; those above are not answered until then.
const BACKLOG: i32 = 512;

/// One socket to be opened inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Door {
    /// What goes through it.
    pub carries: Carries,
    /// At which addresses.
    pub at: At,
    /// At which port.
    pub port: u16,
}

impl fmt::Display for Door {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carries = match self.carries {
            Carries::Streams => "tcp",
            Carries::Datagrams => "udp",
            Carries::Packets => "cable",
        };
        match self.at {
            At::Everywhere => write!(out, "{carries}:*:{}", self.port),
            At::Loopback => write!(out, "{carries}:127.0.0.1:{}", self.port),
            At::Address(address) => write!(out, "{carries}:{address}"),
        }
    }
}

/// What goes through a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carries {
    /// Connections.
    Streams,
    /// Single messages.
    Datagrams,
    /// Everything, by a cable to the sandbox's neighbours: see [`crate::cable`].
    Packets,
}

/// At which addresses a door is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// At all of them, of both families.
    Everywhere,
    /// At `127.0.0.1` alone.
    Loopback,
    /// At this one, which is the sandbox's own among its neighbours.
    Address(Ipv4Addr),
}

/// Opens `doors` in this network namespace and sends them to `parent`, all at once.
///
/// Runs in a child that shares its parent's memory: see [`crate`].
pub(crate) fn open(doors: &[Door], parent: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut opened = [const { None }; MOST];
    for (at, door) in doors.iter().enumerate() {
        *opened.get_mut(at).ok_or(Errno::MFILE)? = Some(open_one(*door)?);
    }
    // Whatever stands in for those that are not there is not sent.
    let mut borrowed = [parent; MOST];
    for (to, socket) in borrowed.iter_mut().zip(&opened) {
        if let Some(socket) = socket {
            *to = OwnedFd::as_fd(socket);
        }
    }
    hand(borrowed.get(..doors.len()).ok_or(Errno::MFILE)?, parent)
}

/// Sends `files` to `parent`, all at once.
///
/// Runs in a child that shares its parent's memory: see [`crate`].
pub(crate) fn hand(files: &[BorrowedFd<'_>], parent: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MFILE);
    }
    sendmsg(parent, &[IoSlice::new(b".")], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

fn open_one(door: Door) -> Result<OwnedFd, Errno> {
    let socket = match door.at {
        At::Address(address) if door.carries == Carries::Packets => return cable::lay(address),
        At::Address(address) => four(door, address)?,
        At::Loopback => four(door, Ipv4Addr::LOCALHOST)?,
        At::Everywhere => match six(door) {
            // A kernel without version 6; then nobody inside speaks it either.
            Err(Errno::AFNOSUPPORT) => four(door, Ipv4Addr::UNSPECIFIED)?,
            socket => socket?,
        },
    };
    match door.carries {
        Carries::Streams => listen(&socket, BACKLOG)?,
        Carries::Datagrams | Carries::Packets => {}
    }
    Ok(socket)
}

/// For both families: what comes by version 4 has an address that is mapped to version 6.
fn six(door: Door) -> Result<OwnedFd, Errno> {
    let socket = make(AddressFamily::INET6, door.carries)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, door.port, 0, 0))?;
    Ok(socket)
}

fn four(door: Door, address: Ipv4Addr) -> Result<OwnedFd, Errno> {
    let socket = make(AddressFamily::INET, door.carries)?;
    bind(&socket, &SocketAddrV4::new(address, door.port))?;
    Ok(socket)
}

fn make(family: AddressFamily, carries: Carries) -> Result<OwnedFd, Errno> {
    let kind = match carries {
        Carries::Streams => SocketType::STREAM,
        Carries::Datagrams => SocketType::DGRAM,
        // It has no address but the one that its cable has.
        Carries::Packets => return Err(Errno::INVAL),
    };
    // Whoever answers does so beside other things.
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Makes every address in the network of `process` its own, and opens `doors` there: for a sandbox
/// that somebody else has built. Needs to be root where that network was made.
///
/// A thread goes there and ends there, so that nothing else of this process is ever inside.
pub fn open_in(process: BorrowedFd<'_>, doors: &[Door]) -> io::Result<Vec<OwnedFd>> {
    let inside = || {
        move_into_thread_name_spaces(process, ThreadNameSpaceType::NETWORK)?;
        let six = speak_six();
        own_every_address()?;
        let opened: Result<Vec<_>, Errno> = doors.iter().map(|it| open_one(*it)).collect();
        six.and(Ok(opened?))
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, inside)?;
        thread.join().map_err(|_| io::Error::other("the thread in its network has failed"))?
    })
}

/// Daemons switch version 6 off where they give no address of it. Then a program that speaks it
/// would be told that there is no route, and wait for nothing, instead of meeting the gateway.
fn speak_six() -> io::Result<()> {
    match fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0") {
        // A kernel without version 6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Takes what `child` has sent on `orders` next: the sockets in the order of its doors, or the
/// base; nothing if it has ended before.
///
/// Waits for it: a child sends both before it asks for anything.
pub fn receive(orders: BorrowedFd<'_>, child: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    match await_readable(orders, child) {
        Ok(()) => {}
        Err(Errno::PIPE) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    }
    let mut slices = [IoSliceMut::new(&mut byte)];
    recvmsg(orders, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            sockets.extend(received);
        }
    }
    Ok(sockets)
}
