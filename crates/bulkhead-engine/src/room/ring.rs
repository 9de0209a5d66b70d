//! The last of what a program said, for whoever asks later.
//!
//! Invariant: what is kept is bounded. A reader that is *attached* holds the program back instead
//! of losing something; one that only looks on is told how much it missed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// One of the two streams that a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// What it says; on a terminal, everything.
    Stdout,
    /// What it complains about.
    Stderr,
}

/// A part of what a program said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Some bytes of one stream, in the order in which they were read.
    Said {
        /// Of which stream.
        which: Which,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// So many bytes are no longer there.
    Lost {
        /// How many.
        bytes: u64,
    },
}

/// What is kept of both streams of one program.
#[derive(Debug)]
pub(crate) struct Ring {
    state: Mutex<State>,
    changed: Notify,
    most: u64,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<(Which, Arc<[u8]>)>,
    /// Where the first piece begins, counted from the first byte of all.
    start: u64,
    end: u64,
    /// Where each attached reader is.
    attached: BTreeMap<u64, u64>,
    next: u64,
    closed: bool,
}

/// A reader of a ring.
#[derive(Debug)]
pub struct Tail {
    ring: Arc<Ring>,
    at: u64,
    /// Set if nothing may be lost on it.
    attached: Option<u64>,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the oldest that is still there.
    Start,
    /// With what comes next.
    Now,
}

impl Ring {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), most })
    }

    /// Adds `bytes`, as soon as every attached reader is near enough.
    pub(crate) async fn put(&self, which: Which, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.state();
                let slowest = state.attached.values().min().copied().unwrap_or(state.end);
                if state.end - slowest <= self.most / 2 {
                    state.pieces.push_back((which, bytes.into()));
                    state.end += length;
                    state.shrink(self.most);
                    break;
                }
            }
            changed.await;
        }
        self.changed.notify_waiters();
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
    }

    /// A reader that may lose what it does not take in time.
    pub(crate) fn look(self: &Arc<Self>, from: From) -> Tail {
        let state = self.state();
        let at = match from {
            From::Start => 0,
            From::Now => state.end,
        };
        Tail { ring: Arc::clone(self), at, attached: None }
    }

    /// A reader that loses nothing from here on: the program waits for it.
    pub(crate) fn attach(self: &Arc<Self>, from: From) -> Tail {
        let mut state = self.state();
        let at = match from {
            From::Start => 0,
            From::Now => state.end,
        };
        let id = state.next;
        state.next += 1;
        let here = at.max(state.start);
        state.attached.insert(id, here);
        Tail { ring: Arc::clone(self), at, attached: Some(id) }
    }

    /// How much was said in all.
    pub(crate) fn total(&self) -> u64 {
        self.state().end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn shrink(&mut self, most: u64) {
        while most < self.end - self.start {
            let Some((_, first)) = self.pieces.pop_front() else { return };
            self.start += u64::try_from(first.len()).unwrap_or(u64::MAX);
        }
    }

    /// The piece at `at`, which is not before the start.
    fn at(&self, at: u64) -> Option<Piece> {
        let mut begin = self.start;
        for (which, bytes) in &self.pieces {
            let end = begin + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if at < end {
                let skip = usize::try_from(at - begin).unwrap_or(0);
                let bytes = if skip == 0 {
                    Arc::clone(bytes)
                } else {
                    bytes.get(skip..).unwrap_or_default().into()
                };
                return Some(Piece::Said { which: *which, bytes });
            }
            begin = end;
        }
        None
    }
}

impl Tail {
    /// What comes next; `None` when the program has said all.
    pub async fn next(&mut self) -> Option<Piece> {
        loop {
            let ring = Arc::clone(&self.ring);
            let changed = ring.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.now() {
                Now::Piece(piece) => return Some(piece),
                Now::End => return None,
                Now::Wait => changed.await,
            }
        }
    }

    fn now(&mut self) -> Now {
        let ring = Arc::clone(&self.ring);
        let mut state = ring.state();
        if self.at < state.start {
            let bytes = state.start - self.at;
            self.at = state.start;
            return Now::Piece(Piece::Lost { bytes });
        }
        let Some(piece) = state.at(self.at) else {
            return if state.closed { Now::End } else { Now::Wait };
        };
        if let Piece::Said { bytes, .. } = &piece {
            self.at += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        }
        if let Some(id) = self.attached {
            state.attached.insert(id, self.at);
            ring.changed.notify_waiters();
        }
        Now::Piece(piece)
    }
}

enum Now {
    Piece(Piece),
    Wait,
    End,
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Some(id) = self.attached {
            self.ring.state().attached.remove(&id);
            self.ring.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn said(which: Which, text: &str) -> Piece {
        Piece::Said { which, bytes: text.as_bytes().into() }
    }

    #[tokio::test]
    async fn both_streams_come_in_their_order_and_end() {
        let ring = Ring::new(1024);
        ring.put(Which::Stdout, b"one").await;
        ring.put(Which::Stderr, b"two").await;
        ring.close();
        let mut tail = ring.look(From::Start);
        assert_eq!(tail.next().await, Some(said(Which::Stdout, "one")));
        assert_eq!(tail.next().await, Some(said(Which::Stderr, "two")));
        assert_eq!(tail.next().await, None);
    }

    #[tokio::test]
    async fn a_looker_on_is_told_what_it_missed() {
        let ring = Ring::new(8);
        for _ in 0..4 {
            ring.put(Which::Stdout, b"abcd").await;
        }
        let mut tail = ring.look(From::Start);
        assert_eq!(tail.next().await, Some(Piece::Lost { bytes: 8 }));
        assert_eq!(tail.next().await, Some(said(Which::Stdout, "abcd")));
    }

    #[tokio::test]
    async fn an_attached_reader_loses_nothing_and_holds_the_program_back() {
        let ring = Ring::new(8);
        let mut tail = ring.attach(From::Now);
        ring.put(Which::Stdout, b"abcd").await;
        ring.put(Which::Stdout, b"efgh").await;
        let waits =
            tokio::time::timeout(Duration::from_millis(20), ring.put(Which::Stdout, b"ijkl"));
        assert!(waits.await.is_err(), "the ring took more than its reader could keep up with");
        assert_eq!(tail.next().await, Some(said(Which::Stdout, "abcd")));
        ring.put(Which::Stdout, b"ijkl").await;
        assert_eq!(tail.next().await, Some(said(Which::Stdout, "efgh")));
        drop(tail);
        ring.put(Which::Stdout, b"mnop").await;
        assert_eq!(ring.total(), 16);
    }
}
