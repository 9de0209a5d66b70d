//! The guest's end of the stream to the host.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::{io::Errno, net::SendFlags};

use crate::{
    protocol::{Flow, MOST_TO_GUEST, ToGuest, ToHost},
    wire::{Arrived, Frame, Inbox, encode, send_all},
};

/// The stream to the host: one socket, which also takes descriptors, or two pipes.
///
/// What is said waits until the host takes it. The host always does, whatever else it is busy
/// with, so this holds up nobody.
#[derive(Debug)]
pub struct Control {
    ends: Ends,
    inbox: Inbox,
}

#[derive(Debug)]
enum Ends {
    Socket(OwnedFd),
    Pipes { input: OwnedFd, output: OwnedFd },
}

impl Control {
    /// Over a socket.
    pub fn socket(socket: OwnedFd) -> Self {
        Self { ends: Ends::Socket(socket), inbox: Inbox::new(MOST_TO_GUEST) }
    }

    /// Over a pair of pipes, or whatever else carries bytes and nothing more.
    pub fn pipes(input: OwnedFd, output: OwnedFd) -> Self {
        Self { ends: Ends::Pipes { input, output }, inbox: Inbox::new(MOST_TO_GUEST) }
    }

    /// Becomes readable when the host has said something.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match &self.ends {
            Ends::Socket(socket) => socket.as_fd(),
            Ends::Pipes { input, .. } => input.as_fd(),
        }
    }

    /// Reads once.
    pub(crate) fn hear(&mut self) -> io::Result<Arrived> {
        match &self.ends {
            Ends::Socket(socket) => self.inbox.fill(socket),
            Ends::Pipes { input, .. } => self.inbox.fill_plain(input),
        }
    }

    /// What was heard next.
    pub(crate) fn frame(&mut self) -> io::Result<Option<Frame<'_, ToGuest>>> {
        self.inbox.frame()
    }

    /// A descriptor that came with what was heard.
    pub(crate) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.inbox.descriptor()
    }

    /// Says `message`.
    pub(crate) fn say(&self, message: &ToHost) -> io::Result<()> {
        self.write(&encode(message)?)
    }

    /// Says that the sandbox cannot be: `action` failed.
    pub fn fail(&self, action: &str, source: &io::Error) -> io::Result<()> {
        let errno = source.raw_os_error().unwrap_or_default();
        self.say(&ToHost::Failed { action: action.to_owned(), errno })
    }

    /// Says something about a channel.
    pub(crate) fn flow(&self, flow: Flow) -> io::Result<()> {
        self.say(&ToHost::Flow(flow))
    }

    /// Says `message` and hands over `descriptor`.
    pub(crate) fn hand_over(&self, message: &ToHost, descriptor: &OwnedFd) -> io::Result<()> {
        match &self.ends {
            Ends::Socket(socket) => send_all(socket, &encode(message)?, &[descriptor.as_fd()]),
            Ends::Pipes { .. } => Err(io::Error::other("a pipe takes no descriptors")),
        }
    }

    /// Writes all of `frame`.
    pub(crate) fn write(&self, frame: &[u8]) -> io::Result<()> {
        let mut rest = frame;
        while !rest.is_empty() {
            let wrote = match &self.ends {
                Ends::Socket(socket) => rustix::net::send(socket, rest, SendFlags::NOSIGNAL),
                Ends::Pipes { output, .. } => rustix::io::write(output, rest),
            };
            match wrote {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}
