//! The host's end of the stream to the guest.
//!
//! Everything that comes out of it is hostile: frames are bounded, and one that does not fit ends
//! the sandbox.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use bulkhead_guest::{
    protocol::{MOST_TO_HOST, ToGuest, ToHost},
    wire::{Arrived, Inbox, encode, send},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::unix::AsyncFd;

use super::watch::watch;

/// The stream, as one task reads and several write it.
pub(super) struct Control {
    socket: AsyncFd<OwnedFd>,
    /// Frames of two writers must not mix.
    writing: tokio::sync::Mutex<()>,
    inbox: Mutex<Inbox>,
    /// What was said about programs that nobody asked about at that moment.
    stash: tokio::sync::Mutex<BTreeMap<u32, VecDeque<ToHost>>>,
}

/// The most messages that are kept for a program that nobody asks about.
const MOST_WAITING: usize = 4;

/// Both ends: ours, which never blocks, and the guest's.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

impl Control {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: watch(socket)?,
            writing: tokio::sync::Mutex::new(()),
            inbox: Mutex::new(Inbox::new(MOST_TO_HOST)),
            stash: tokio::sync::Mutex::default(),
        })
    }

    /// Says `message` to the guest, with `descriptors`.
    pub(super) async fn say(
        &self,
        message: &ToGuest,
        descriptors: &[OwnedFd],
    ) -> io::Result<()> {
        let frame = encode(message)?;
        let turn = self.writing.lock().await;
        let mut sent = 0;
        while let Some(rest @ [_, ..]) = frame.get(sent..) {
            let mut ready = self.socket.writable().await?;
            let with: Vec<_> = if sent == 0 {
                descriptors.iter().map(AsFd::as_fd).collect()
            } else {
                Vec::new()
            };
            if let Ok(count) = ready.try_io(|socket| send(socket, rest, &with)) {
                sent += count?;
            }
        }
        drop(turn);
        Ok(())
    }

    /// What the guest says next; `None` when it is gone.
    pub(super) async fn hear(&self) -> io::Result<Option<ToHost>> {
        loop {
            if let Some(message) = self.inbox().message()? {
                return Ok(Some(message));
            }
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| self.inbox().fill(socket)) {
                Ok(Ok(Arrived::Some)) | Err(_) => {}
                Ok(Ok(Arrived::End)) => return Ok(None),
                // A guest that was killed with words of ours unread resets the stream.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    /// What the guest says next about the program `id`; `None` when the guest is gone.
    ///
    /// Any number of tasks may ask at once, each about its own program.
    pub(super) async fn about(&self, id: u32) -> io::Result<Option<ToHost>> {
        loop {
            let mut stash = self.stash.lock().await;
            if let Some(message) = stash.get_mut(&id).and_then(VecDeque::pop_front) {
                return Ok(Some(message));
            }
            let Some(message) = self.hear().await? else { return Ok(None) };
            let whose = message.program();
            if whose == Some(id) {
                return Ok(Some(message));
            }
            let whose = whose.ok_or_else(|| io::Error::other("it speaks of no program"))?;
            let waiting = stash.entry(whose).or_default();
            if MOST_WAITING < waiting.len() {
                return Err(io::Error::other("it says more than anybody asked for"));
            }
            waiting.push_back(message);
        }
    }

    /// A descriptor that came with what the guest said.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        self.inbox().descriptor()
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
