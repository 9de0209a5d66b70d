//! The stream to a guest, as everybody on the host uses it.

use std::{io, os::fd::OwnedFd, sync::Arc};

use bulkhead_guest::protocol::{Furnish, ToGuest};
use bulkhead_linux::walls::Walls;
use bulkhead_spec::escape_bytes;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    task::AbortHandle,
};

use super::{
    driver::{Reader, drive},
    outbox::{Outbox, Writer},
    state::{Standing, State},
};
use crate::{
    BackendError,
    quiet::{Outward, watch},
};

/// A hand on the guest of one sandbox. Copies are hands on the same guest.
#[derive(Clone)]
pub struct Link {
    pub(super) state: Arc<State>,
    pub(super) carriage: Carriage,
    _driver: Arc<Driver>,
}

/// How the streams of programs travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    Descriptors,
    Channels,
}

/// The task in which the link lives; it is stopped with the last hand on it.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a guest is not ready.
#[derive(Debug)]
pub enum Unready {
    /// A wall could not be put up.
    Failed(BackendError),
    /// The guest ended without a word; whoever made it may know why.
    Gone,
    /// The guest broke the protocol.
    Broken(BackendError),
}

/// Both ends of a stream that takes descriptors: ours, which never blocks, and the guest's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

impl Link {
    /// Over our end of a [`pair`]. What programs read and write does not go through the link.
    ///
    /// Must be called in a runtime.
    pub fn over_socket(socket: OwnedFd) -> io::Result<Self> {
        let socket = Arc::new(watch(socket, Interest::READABLE)?);
        let reader = Reader::Socket(Arc::clone(&socket));
        let writer = Writer::Socket(Outward::new(Arc::clone(&socket)));
        Ok(Self::new(Outbox::new(Some(socket)), reader, writer, Carriage::Descriptors))
    }

    /// Over anything that carries bytes to the guest and back.
    ///
    /// Must be called in a runtime.
    pub fn over_stream(
        from_guest: impl AsyncRead + Send + Unpin + 'static,
        to_guest: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let reader = Reader::Stream(Box::new(from_guest));
        let writer = Writer::Stream(Box::new(to_guest));
        Self::new(Outbox::new(None), reader, writer, Carriage::Channels)
    }

    fn new(outbox: Outbox, reader: Reader, writer: Writer, carriage: Carriage) -> Self {
        let state = Arc::new(State::new(outbox));
        let task = tokio::spawn(drive(Arc::clone(&state), reader, writer));
        Self { state, carriage, _driver: Arc::new(Driver(task.abort_handle())) }
    }

    /// Tells the guest about its private directories, before it puts its walls up.
    pub fn furnish(&self, order: Furnish) {
        self.state.say(&ToGuest::Furnish(order));
    }

    /// Has the guest put its walls up, before anything else that it is told.
    ///
    /// Returns at once: programs may be started without waiting for [`Link::ready`], and run only
    /// if all walls stand.
    pub fn raise(&self, walls: Walls) {
        self.state.say(&ToGuest::Raise(walls));
    }

    /// Waits until the walls stand.
    pub async fn ready(&self) -> Result<(), Unready> {
        let mut standing = {
            let known = self.state.known();
            if known.is_over() {
                drop(known);
                return Err(self.unready());
            }
            known.standing.subscribe()
        };
        loop {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::Ready => return Ok(()),
                Standing::Failed { action, errno } => {
                    return Err(Unready::Failed(BackendError::Build {
                        action: escape_bytes(action.as_bytes()),
                        source: io::Error::from_raw_os_error(errno),
                        hint: None,
                    }));
                }
                Standing::Unknown if standing.changed().await.is_err() => {
                    return Err(self.unready());
                }
                Standing::Unknown => {}
            }
        }
    }

    /// Returns when the guest is gone, and with it everything that ran in its sandbox.
    pub async fn ended(&self) {
        let mut standing = {
            let known = self.state.known();
            if known.is_over() {
                return;
            }
            known.standing.subscribe()
        };
        while standing.changed().await.is_ok() {}
    }

    fn unready(&self) -> Unready {
        match self.state.gone() {
            Ok(()) => Unready::Gone,
            Err(broken) => Unready::Broken(broken),
        }
    }

    /// Whether the guest is gone, or was given up for breaking the protocol.
    pub fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// What to say when the guest is gone while something was asked of it.
    pub(super) fn gone(&self, at: &str) -> BackendError {
        match self.state.gone() {
            Ok(()) => BackendError::Guest(format!("it ended at {at}")),
            Err(broken) => broken,
        }
    }
}
