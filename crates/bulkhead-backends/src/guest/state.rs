//! What is known about the guest and all that it was asked for.

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bulkhead_guest::{
    protocol::{Datagram, FIRST_OF_GUEST, ToGuest, files::Filed},
    wire::encode,
};
use bulkhead_linux::launch::Stage;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{
    channel::Channel,
    files::{MOST_AT_ONCE, MOST_WATCHES_AT_ONCE},
    listener::Connection,
    outbox::{Outbox, Writer},
    pipe::{Pipe, Ways},
    program::Ended,
};
use crate::BackendError;

/// What all users of a link and its driver share.
pub(super) struct State {
    known: Mutex<Known>,
    file_turns: Arc<Semaphore>,
    watch_turns: Arc<Semaphore>,
}

/// A channel, as both its user and the driver hold it.
pub(super) type SharedPipe = Arc<Mutex<Pipe>>;

pub(super) struct Known {
    pub(super) outbox: Outbox,
    /// Whether the walls stand.
    pub(super) standing: watch::Sender<Standing>,
    /// Those that have not ended.
    pub(super) programs: BTreeMap<u32, Asked>,
    pub(super) channels: BTreeMap<u32, SharedPipe>,
    /// Channels that are to become connections.
    pub(super) dialled: BTreeMap<u32, oneshot::Sender<Result<Channel, i32>>>,
    pub(super) listening: BTreeMap<u32, Heard>,
    /// Orders about files that have no answer yet.
    pub(super) orders: BTreeMap<u32, Order>,
    /// Numbers for programs and listeners, and for channels of ours and of the guest's.
    pub(super) next: u32,
    pub(super) next_channel: u32,
    pub(super) next_of_guest: u32,
    /// Why the link is over, if it is.
    end: Option<End>,
}

/// Who waits for an answer about files.
pub(super) enum Order {
    /// It is answered once.
    Once(oneshot::Sender<Filed>),
    /// It is answered when its bytes begin, and again when there are no more.
    Twice(oneshot::Sender<Filed>, oneshot::Sender<Filed>),
}

/// Whether the walls stand.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    Unknown,
    Ready,
    Failed { action: String, errno: i32 },
}

/// Whether a program started: its process and its terminal, if that comes by descriptor, or how far
/// it came.
pub(super) type Answer = Result<(u32, Option<OwnedFd>), (Stage, i32)>;

/// A program that was asked for.
pub(super) struct Asked {
    pub(super) started: Option<oneshot::Sender<Answer>>,
    /// The channels that carry its streams.
    pub(super) carried: Vec<u32>,
    /// Whether a descriptor comes with its start.
    pub(super) terminal: bool,
    pub(super) ended: watch::Sender<Option<Ended>>,
}

/// A listener that was asked for.
pub(super) struct Heard {
    pub(super) listening: Option<oneshot::Sender<Result<(), i32>>>,
    pub(super) connections: mpsc::UnboundedSender<Connection>,
    pub(super) datagrams: mpsc::Sender<Datagram>,
    /// The most connections at once.
    pub(super) most: usize,
}

#[derive(Clone, Debug)]
enum End {
    /// The guest is gone.
    Gone,
    /// It broke a rule, which this is.
    Broken(String),
}

impl State {
    pub(super) fn new(outbox: Outbox) -> Self {
        let known = Known {
            outbox,
            standing: watch::Sender::new(Standing::Unknown),
            programs: BTreeMap::new(),
            channels: BTreeMap::new(),
            dialled: BTreeMap::new(),
            listening: BTreeMap::new(),
            orders: BTreeMap::new(),
            next: 1,
            next_channel: 1,
            next_of_guest: FIRST_OF_GUEST,
            end: None,
        };
        Self {
            known: Mutex::new(known),
            file_turns: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            watch_turns: Arc::new(Semaphore::new(MOST_WATCHES_AT_ONCE)),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says `message`. To a guest that is gone it is said in vain; whoever waits for the answer
    /// finds that out.
    pub(super) fn say(&self, message: &ToGuest) {
        // Every message can be encoded; one that is too long is refused before it comes here.
        if let Ok(frame) = encode(message) {
            self.send(frame, Vec::new());
        }
    }

    /// Sends a frame, with descriptors.
    pub(super) fn send(&self, frame: Vec<u8>, with: Vec<OwnedFd>) {
        let mut known = self.known();
        if known.end.is_none() {
            known.outbox.push(frame, with);
        }
    }

    pub(super) fn poll_flush(
        &self,
        writer: &mut Writer,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.known().outbox.poll_flush(writer, context)
    }

    /// Turns for orders about files.
    pub(super) fn file_turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.file_turns)
    }

    /// Turns for watches.
    pub(super) fn watch_turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.watch_turns)
    }

    /// Forgets a channel that the guest never heard of.
    pub(super) fn forget(&self, id: u32) {
        let forgotten = self.known().channels.remove(&id);
        if let Some(pipe) = forgotten {
            pipe.lock().unwrap_or_else(PoisonError::into_inner).break_off();
        }
    }

    /// Forgets a channel in which nothing more is sent.
    pub(super) fn forget_if_over(&self, id: u32) {
        self.known().forget_if_over(id);
    }

    /// The link is over: nobody waits any longer.
    pub(super) fn end(&self, result: io::Result<()>) {
        let mut known = self.known();
        if known.end.is_some() {
            return;
        }
        known.end = Some(match result {
            Ok(()) => End::Gone,
            Err(error) if is_farewell(&error) => End::Gone,
            Err(error) => End::Broken(error.to_string()),
        });
        known.outbox.close();
        let left = (
            std::mem::take(&mut known.programs),
            std::mem::take(&mut known.dialled),
            std::mem::take(&mut known.listening),
            std::mem::take(&mut known.orders),
        );
        let channels = std::mem::take(&mut known.channels);
        // Whoever waits for the walls is told that nothing more will be known.
        known.standing = watch::Sender::new(Standing::Unknown);
        drop(known);
        // What is dropped here may lock.
        drop(left);
        for pipe in channels.into_values() {
            pipe.lock().unwrap_or_else(PoisonError::into_inner).break_off();
        }
    }

    /// Why nobody answers.
    pub(super) fn gone(&self) -> Result<(), BackendError> {
        match &self.known().end {
            Some(End::Broken(rule)) => Err(BackendError::Guest(rule.clone())),
            Some(End::Gone) | None => Ok(()),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.known().end.is_some()
    }
}

impl Known {
    /// A number for a program or a listener.
    pub(super) fn number(&mut self) -> io::Result<u32> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or_else(|| io::Error::other("no more numbers"))?;
        Ok(number)
    }

    /// A new channel of ours.
    pub(super) fn channel(&mut self, ways: Ways) -> io::Result<(u32, SharedPipe)> {
        let id = self.next_channel;
        if FIRST_OF_GUEST <= id {
            return Err(io::Error::other("no more numbers for channels"));
        }
        self.next_channel = id + 1;
        Ok((id, self.open(id, ways)))
    }

    pub(super) fn open(&mut self, id: u32, ways: Ways) -> SharedPipe {
        let pipe = Arc::new(Mutex::new(Pipe::new(ways)));
        if self.end.is_some() {
            pipe.lock().unwrap_or_else(PoisonError::into_inner).break_off();
        } else {
            self.channels.insert(id, Arc::clone(&pipe));
        }
        pipe
    }

    pub(super) fn forget_if_over(&mut self, id: u32) {
        let over =
            |it: &Arc<Mutex<Pipe>>| it.lock().unwrap_or_else(PoisonError::into_inner).is_over();
        if self.channels.get(&id).is_some_and(over) {
            self.channels.remove(&id);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

/// A guest that was killed with words of ours unread resets the stream, or is not there to read.
fn is_farewell(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::WriteZero
            | io::ErrorKind::ConnectionAborted
    )
}
