//! Where the guest listens for the host, so that what comes can be decided outside.

use std::{io, net::SocketAddr, os::fd::OwnedFd, rc::Rc};

use bulkhead_linux::datagrams;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, accept_with, bind, getpeername, getsockname,
        listen, socket_with, sockopt,
    },
};

use super::{
    channels::{Channels, Ends, Kind},
    events::{Event, Wanted},
};
use crate::{
    control::Control,
    protocol::{Accepted, Datagram, FIRST_OF_GUEST, Listen, MOST_DATAGRAM, ToHost},
};

/// Connections that wait for the guest at each door.
const BACKLOG: i32 = 256;

/// All doors.
#[derive(Default)]
pub(super) struct Doors {
    open: Vec<Door>,
    /// How many channels were made for who came.
    made: u32,
    /// The kernel gave no more descriptors; one must be closed before it is asked again.
    exhausted: bool,
}

struct Door {
    listener: u32,
    socket: OwnedFd,
    /// The most connections at once; `None` if datagrams come here.
    most: Option<usize>,
}

impl Doors {
    /// Opens doors, all or none.
    pub(super) fn open_all(&mut self, order: &Listen) -> Result<(), Errno> {
        let most = usize::try_from(order.most).unwrap_or(usize::MAX);
        let mut opened = Vec::new();
        for address in &order.tcp {
            let socket = bound(*address, SocketType::STREAM)?;
            listen(&socket, BACKLOG)?;
            opened.push(Door { listener: order.id, socket, most: Some(most) });
        }
        for address in &order.udp {
            let socket = bound(*address, SocketType::DGRAM)?;
            datagrams::tell_local(&socket, *address)?;
            opened.push(Door { listener: order.id, socket, most: None });
        }
        self.open.append(&mut opened);
        Ok(())
    }

    /// Closes the doors of a listener; who is inside stays.
    pub(super) fn close_all(&mut self, listener: u32) {
        self.open.retain(|it| it.listener != listener);
    }

    pub(super) fn wanted<'a>(&'a self, channels: &Channels, wanted: &mut Wanted<'a>) {
        if self.open.is_empty() {
            return;
        }
        let open = channels.count_from(FIRST_OF_GUEST);
        for (at, door) in self.open.iter().enumerate() {
            if door.most.is_none_or(|most| open < most && !self.exhausted) {
                wanted.push(Event::Door(at), PollFd::new(&door.socket, PollFlags::IN));
            }
        }
    }

    /// A channel was closed.
    pub(super) fn relieved(&mut self) {
        self.exhausted = false;
    }

    /// Lets one in.
    pub(super) fn answer(
        &mut self,
        at: usize,
        channels: &mut Channels,
        control: &Control,
    ) -> io::Result<()> {
        let Some(door) = self.open.get(at) else { return Ok(()) };
        let listener = door.listener;
        if door.most.is_none() {
            return pass_on(listener, &door.socket, control);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&door.socket, flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                self.exhausted = true;
                return Ok(());
            }
            // Gone again, or an error of the one who came.
            Err(_) => return Ok(()),
        };
        let (Some(local), Some(peer)) = (
            getsockname(&socket).ok().and_then(|it| SocketAddr::try_from(it).ok()),
            getpeername(&socket).ok().and_then(|it| SocketAddr::try_from(it?).ok()),
        ) else {
            return Ok(());
        };
        let channel = FIRST_OF_GUEST
            .checked_add(self.made)
            .ok_or_else(|| io::Error::other("there are no more numbers for channels"))?;
        self.made += 1;
        // As with those that the host makes; if it cannot be set, it is slower.
        sockopt::set_tcp_nodelay(&socket, true).unwrap_or_default();
        channels.open(channel, Kind::Socket, Ends::Both(Rc::new(socket)));
        control.say(&ToHost::Accepted(Accepted { channel, listener, local, peer }))
    }

    /// Sends a datagram of the host's. One that cannot be sent is lost, as datagrams are.
    pub(super) fn send(&self, datagram: &Datagram) {
        let Datagram { listener, local, peer, bytes } = datagram;
        let fits = |door: &&Door| {
            door.listener == *listener && door.most.is_none() && serves(&door.socket, *local)
        };
        if let Some(door) = self.open.iter().find(fits) {
            datagrams::send(&door.socket, bytes, *peer, local.ip()).unwrap_or_default();
        }
    }
}

/// Whether datagrams from `local` are sent by this socket.
fn serves(socket: &OwnedFd, local: SocketAddr) -> bool {
    let own = getsockname(socket).ok().and_then(|it| SocketAddr::try_from(it).ok());
    own.is_some_and(|own| {
        let ip = own.ip() == local.ip()
            || own.ip().is_unspecified() && own.is_ipv4() == local.is_ipv4();
        ip && own.port() == local.port()
    })
}

fn pass_on(listener: u32, socket: &OwnedFd, control: &Control) -> io::Result<()> {
    let mut bytes = vec![0; MOST_DATAGRAM];
    // One that cannot be taken, or is longer than any question, is lost, as datagrams are.
    let Ok(Some(got)) = datagrams::receive(socket, &mut bytes) else { return Ok(()) };
    bytes.truncate(got.length);
    let (local, peer) = (got.local, got.peer);
    control.say(&ToHost::Datagram(Datagram { listener, local, peer, bytes }))
}

fn bound(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    // Not to be shared: with `SO_REUSEADDR` a program could listen beside it, and answer in the
    // gateway's place.
    if address.is_ipv6() {
        // The same port may be open for IPv4 as well, by a door of its own.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}
