//! Connections that the host wants to something inside.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    rc::Rc,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
    },
};

use super::{
    channels::{Channels, Ends, Kind},
    events::{Event, Wanted},
};
use crate::{
    control::Control,
    protocol::{To, ToHost},
};

/// Those that do not stand yet, by their channels.
#[derive(Default)]
pub(super) struct Dials {
    pending: BTreeMap<u32, Dial>,
}

struct Dial {
    socket: OwnedFd,
    /// Where to try next if this fails.
    then: Option<SocketAddr>,
}

enum Attempt {
    Stands(OwnedFd),
    Pending(OwnedFd),
}

impl Dials {
    /// Connects `channel`, now or later.
    pub(super) fn begin(
        &mut self,
        channel: u32,
        to: To,
        channels: &mut Channels,
        control: &Control,
    ) -> io::Result<()> {
        let (attempt, then) = match to {
            To::Path(path) => (local(&path), None),
            To::Address(address) => (internet(address), None),
            To::Port(port) => {
                let next = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
                (internet((Ipv4Addr::LOCALHOST, port).into()), Some(next))
            }
        };
        self.settle(channel, attempt, then).answer(channel, channels, control)
    }

    pub(super) fn wanted<'a>(&'a self, wanted: &mut Wanted<'a>) {
        for (id, dial) in &self.pending {
            wanted.push(Event::Dial(*id), PollFd::new(&dial.socket, PollFlags::OUT));
        }
    }

    /// Looks after a connection that stands, or will not.
    pub(super) fn look(
        &mut self,
        channel: u32,
        channels: &mut Channels,
        control: &Control,
    ) -> io::Result<()> {
        let Some(Dial { socket, then }) = self.pending.remove(&channel) else { return Ok(()) };
        let attempt = match sockopt::socket_error(&socket) {
            Ok(Ok(())) => Ok(Attempt::Stands(socket)),
            Ok(Err(errno)) | Err(errno) => Err(errno),
        };
        self.settle(channel, attempt, then).answer(channel, channels, control)
    }

    fn settle(
        &mut self,
        channel: u32,
        attempt: Result<Attempt, Errno>,
        then: Option<SocketAddr>,
    ) -> Settled {
        match (attempt, then) {
            (Ok(Attempt::Stands(socket)), _) => Settled::Stands(socket),
            (Ok(Attempt::Pending(socket)), then) => {
                self.pending.insert(channel, Dial { socket, then });
                Settled::Later
            }
            (Err(Errno::CONNREFUSED | Errno::ADDRNOTAVAIL), Some(next)) => {
                self.settle(channel, internet(next), None)
            }
            (Err(errno), _) => Settled::Failed(errno),
        }
    }
}

enum Settled {
    Stands(OwnedFd),
    Later,
    Failed(Errno),
}

impl Settled {
    fn answer(
        self,
        channel: u32,
        channels: &mut Channels,
        control: &Control,
    ) -> io::Result<()> {
        match self {
            Self::Later => Ok(()),
            Self::Stands(socket) => {
                channels.open(channel, Kind::Socket, Ends::Both(Rc::new(socket)));
                control.say(&ToHost::Connected { channel })
            }
            Self::Failed(errno) => {
                let errno = errno.raw_os_error();
                control.say(&ToHost::NotConnected { channel, errno })
            }
        }
    }
}

fn internet(to: SocketAddr) -> Result<Attempt, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    // Whoever speaks through us has chosen what to send at once.
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &to) {
        Ok(()) => Ok(Attempt::Stands(socket)),
        Err(Errno::INPROGRESS) => Ok(Attempt::Pending(socket)),
        Err(errno) => Err(errno),
    }
}

fn local(path: &[u8]) -> Result<Attempt, Errno> {
    let to = SocketAddrUnix::new(path)?;
    let socket = open(AddressFamily::UNIX)?;
    connect(&socket, &to)?;
    Ok(Attempt::Stands(socket))
}

fn open(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}
