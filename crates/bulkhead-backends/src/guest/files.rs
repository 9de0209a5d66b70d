//! Files of a sandbox, as the sandbox itself sees them: nothing on the host follows its links.
//!
//! [`Files`] asks the guest, who does everything with the rights of the sandbox. Long answers come
//! through channels: bytes as they are, and lists, trees and changes as [`Records`], which check
//! what comes. Trees are put on the host's disk by [`receive`] and taken from it by [`send`]; both
//! work on any stream, so a tree can be passed on to whoever has the disk.

mod error;
mod receive;
mod records;
mod send;
mod write;

use std::io;

use bulkhead_guest::{
    protocol::{
        ToGuest,
        files::{Ask, FileOrder, MOST_FILE_ORDERS, MOST_WATCHES},
    },
    wire::{encode, encode_data},
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub use bulkhead_guest::protocol::files::{
    Change, Depth, Facts, Filed, Follow, Kind, Notes, Onto, Put, Record,
};

pub use self::{
    error::FileError,
    receive::{Bounds, Received, receive},
    records::{Item, Records},
    send::{Sent, send},
    write::{TreeWriting, Writing},
};
use super::{channel::ChannelReader, link::Link, pipe::Ways, state::Order};

/// Orders at once, so that there is always room for one whose end the guest has not noticed yet.
pub(super) const MOST_AT_ONCE: usize = MOST_FILE_ORDERS / 2;
/// Watches at once, likewise.
pub(super) const MOST_WATCHES_AT_ONCE: usize = MOST_WATCHES / 2;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, from the directory that was listed.
    pub path: Vec<u8>,
    /// What it is.
    pub facts: Facts,
}

/// What is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In no order.
    pub entries: Vec<Entry>,
    /// What could not be looked at.
    pub skipped: Vec<Vec<u8>>,
    /// Whether there is more than was asked for.
    pub truncated: bool,
}

/// Bytes, lists or changes that come out of the sandbox.
pub struct Reading {
    /// About what they are.
    pub facts: Facts,
    /// The bytes, as they come. Dropped, nothing more comes.
    pub bytes: ChannelReader,
    /// Whether they were all, if they do not tell themselves.
    end: Option<oneshot::Receiver<Filed>>,
    link: Link,
    _turn: OwnedSemaphorePermit,
}

impl Reading {
    /// Whether that was all, once no more bytes come; if not, what the sandbox could not read.
    pub async fn finish(self) -> Result<(), FileError> {
        let Some(end) = self.end else { return Ok(()) };
        match end.await.map_err(|_| gone(&self.link))? {
            Filed::Done => Ok(()),
            other @ (Filed::Is(_) | Filed::Failed { .. } | Filed::NotAFile { .. }) => {
                Err(FileError::unexpected(&other))
            }
        }
    }
}

/// The files of one sandbox.
#[derive(Clone)]
pub struct Files {
    link: Link,
}

impl Link {
    /// The files inside, once the walls are raised.
    pub fn files(&self) -> Files {
        Files { link: self.clone() }
    }
}

/// A record as it is sent.
pub fn record(record: &Record) -> io::Result<Vec<u8>> {
    encode(record)
}

/// Bytes of a file as they are sent, between its record and [`Record::FileEnd`]; 32 KiB at most.
pub fn bytes(bytes: &[u8]) -> Vec<u8> {
    encode_data(0, bytes)
}

impl Files {
    /// What is at `path`.
    pub async fn stat(&self, path: &[u8], follow: Follow) -> Result<Facts, FileError> {
        facts(self.ask(Ask::Stat { path: path.to_vec(), follow }).await?)
    }

    /// At most `most` entries of a directory, and of those in it down to `depth`; 1 is only its
    /// own.
    pub async fn list(
        &self,
        path: &[u8],
        depth: u32,
        most: usize,
    ) -> Result<Listing, FileError> {
        let path = path.to_vec();
        let reading = self.stream(|channel| Ask::List { path, depth, channel }).await?;
        let mut records = Records::new(reading.bytes);
        let mut listing = Listing::default();
        loop {
            let item = records.next().await?;
            if most <= listing.entries.len() + listing.skipped.len() {
                listing.truncated = item != Some(Item::Record(Record::End));
                return Ok(listing);
            }
            match item {
                Some(Item::Record(Record::Entry { path, facts })) => {
                    listing.entries.push(Entry { path, facts });
                }
                Some(Item::Record(Record::Skipped { path, .. })) => listing.skipped.push(path),
                Some(Item::Record(Record::End)) => return Ok(listing),
                Some(_) => return Err(FileError::Hostile("no entry in a list")),
                None => return Err(self.gone()),
            }
        }
    }

    /// The bytes of a file from `offset` on, `length` at most.
    pub async fn read(
        &self,
        path: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Reading, FileError> {
        let path = path.to_vec();
        self.stream(|channel| Ask::Read { path, offset, length, channel }).await
    }

    /// Writes a file, with these notes beside it. Nothing counts before [`Writing::finish`].
    pub async fn write(
        &self,
        path: &[u8],
        put: Put,
        mode: Option<u32>,
        notes: Option<Notes>,
    ) -> Result<Writing, FileError> {
        let path = path.to_vec();
        self.sink(|channel| Ask::Write { path, put, mode, notes, channel }).await
    }

    /// Makes a directory, and those that it lies in.
    pub async fn make_dirs(&self, path: &[u8], mode: u32) -> Result<(), FileError> {
        self.done(Ask::MakeDirs { path: path.to_vec(), mode }).await
    }

    /// Gives something another name, in the same mount.
    pub async fn rename(&self, from: &[u8], to: &[u8], onto: Onto) -> Result<(), FileError> {
        self.done(Ask::Move { from: from.to_vec(), to: to.to_vec(), onto }).await
    }

    /// Removes something.
    pub async fn remove(&self, path: &[u8], depth: Depth) -> Result<(), FileError> {
        self.done(Ask::Remove { path: path.to_vec(), depth }).await
    }

    /// Sets permissions, and when it was changed (seconds since 1970, and nanoseconds).
    pub async fn set(
        &self,
        path: &[u8],
        mode: Option<u32>,
        modified: Option<(i64, u32)>,
    ) -> Result<(), FileError> {
        self.done(Ask::Set { path: path.to_vec(), mode, modified }).await
    }

    /// Makes a symbolic link that says `target`.
    pub async fn link(&self, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        self.done(Ask::Link { path: path.to_vec(), target: target.to_vec() }).await
    }

    /// A file or a directory with all that is in it, as [`Records`] in bytes; for [`receive`].
    pub async fn pack(&self, path: &[u8]) -> Result<Reading, FileError> {
        let path = path.to_vec();
        self.stream(|channel| Ask::Pack { path, channel }).await
    }

    /// Makes at `path` what [`send`] writes.
    pub async fn unpack(&self, path: &[u8]) -> Result<TreeWriting, FileError> {
        let path = path.to_vec();
        self.sink(|channel| Ask::Unpack { path, channel }).await.map(TreeWriting)
    }

    /// What changes in a directory from now on, as [`Records`] in bytes.
    pub async fn watch(&self, path: &[u8], depth: Depth) -> Result<Reading, FileError> {
        let path = path.to_vec();
        self.stream(|channel| Ask::Watch { path, depth, channel }).await
    }

    fn gone(&self) -> FileError {
        gone(&self.link)
    }

    /// Waits for a turn.
    async fn turn(&self, ask: &Ask) -> Result<OwnedSemaphorePermit, FileError> {
        let turns = match ask {
            Ask::Watch { .. } => {
                let turns = self.link.state.watch_turns();
                // A watch may last for ever, so nobody waits for the end of one.
                return turns.try_acquire_owned().map_err(|_| FileError::TooManyWatches);
            }
            Ask::Stat { .. }
            | Ask::List { .. }
            | Ask::Read { .. }
            | Ask::Write { .. }
            | Ask::MakeDirs { .. }
            | Ask::Move { .. }
            | Ask::Remove { .. }
            | Ask::Set { .. }
            | Ask::Link { .. }
            | Ask::Pack { .. }
            | Ask::Unpack { .. } => self.link.state.file_turns(),
        };
        turns.acquire_owned().await.map_err(|_| self.gone())
    }

    /// Gives an order that is answered once.
    fn order(&self, ask: Ask) -> Result<(u32, oneshot::Receiver<Filed>), FileError> {
        let (asked, answer) = oneshot::channel();
        Ok((self.give(ask, Order::Once(asked))?, answer))
    }

    /// Gives an order; its answers come later.
    fn give(&self, ask: Ask, order: Order) -> Result<u32, FileError> {
        let mut known = self.link.state.known();
        let id = known.number().map_err(FileError::System)?;
        let frame = encode(&ToGuest::File(FileOrder { id, ask })).map_err(FileError::System)?;
        if known.is_over() {
            drop(known);
            return Err(self.gone());
        }
        known.orders.insert(id, order);
        known.outbox.push(frame, Vec::new());
        Ok(id)
    }

    async fn ask(&self, ask: Ask) -> Result<Filed, FileError> {
        let turn = self.turn(&ask).await?;
        let (_, answer) = self.order(ask)?;
        let filed = answer.await.map_err(|_| self.gone())?;
        drop(turn);
        Ok(filed)
    }

    async fn done(&self, ask: Ask) -> Result<(), FileError> {
        match self.ask(ask).await? {
            Filed::Done => Ok(()),
            other @ (Filed::Is(_) | Filed::Failed { .. } | Filed::NotAFile { .. }) => {
                Err(FileError::unexpected(&other))
            }
        }
    }

    async fn stream(&self, ask: impl FnOnce(u32) -> Ask) -> Result<Reading, FileError> {
        let (channel, pipe) = self.channel(Ways::FromGuest)?;
        let bytes = ChannelReader::new(channel, pipe, self.link.state.clone());
        let ask = ask(channel);
        let turn = self.turn(&ask).await;
        let turn = turn.inspect_err(|_| self.link.state.forget(channel))?;
        let (asked, answer) = oneshot::channel();
        let (order, end) = if matches!(ask, Ask::Read { .. }) {
            let (told, end) = oneshot::channel();
            (Order::Twice(asked, told), Some(end))
        } else {
            (Order::Once(asked), None)
        };
        self.give(ask, order)?;
        let facts = facts(answer.await.map_err(|_| self.gone())?)?;
        Ok(Reading { facts, bytes, end, link: self.link.clone(), _turn: turn })
    }

    async fn sink(&self, ask: impl FnOnce(u32) -> Ask) -> Result<Writing, FileError> {
        let (channel, pipe) = self.channel(Ways::ToGuest)?;
        let ask = ask(channel);
        let turn = self.turn(&ask).await;
        let turn = turn.inspect_err(|_| self.link.state.forget(channel))?;
        let (id, answer) = self.order(ask)?;
        let writer = super::ChannelWriter::new(channel, pipe, self.link.state.clone());
        Ok(Writing::new(self.link.clone(), id, writer, answer, turn))
    }

    fn channel(&self, ways: Ways) -> Result<(u32, super::state::SharedPipe), FileError> {
        let made: io::Result<_> = self.link.state.known().channel(ways);
        made.map_err(FileError::System)
    }
}

fn gone(link: &Link) -> FileError {
    FileError::Gone(link.gone("an order about files"))
}

fn facts(filed: Filed) -> Result<Facts, FileError> {
    match filed {
        Filed::Is(facts) => Ok(facts),
        other @ (Filed::Done | Filed::Failed { .. } | Filed::NotAFile { .. }) => {
            Err(FileError::unexpected(&other))
        }
    }
}
