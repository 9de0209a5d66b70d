//! Where the bytes of the host go, and those that wait for it.

use std::{collections::VecDeque, os::fd::OwnedFd, rc::Rc};

use rustix::{event::PollFlags, io::Errno, net::Shutdown};

use super::Kind;
use crate::protocol::WINDOW_TO_GUEST;

pub(super) struct Sink {
    file: Rc<OwnedFd>,
    kind: Kind,
    waiting: VecDeque<u8>,
    /// Bytes that were written since the host was last given credit.
    written: usize,
    /// Whether the host has said all.
    last: bool,
}

/// What has become of what waited.
pub(super) enum Drained {
    /// As much was written as could be; the host gets `credit`.
    Some { credit: usize },
    /// Everything was written, and nothing more comes.
    All,
    /// Nobody takes it any more.
    Broken,
}

impl Sink {
    pub(super) fn new(file: Rc<OwnedFd>, kind: Kind) -> Self {
        Self { file, kind, waiting: VecDeque::new(), written: 0, last: false }
    }

    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// What to wait for, if for anything.
    ///
    /// A pipe whose reader has gone says so unasked, and is then let go of; what else would be
    /// said unasked, its source tells.
    pub(super) fn wants(&self) -> Option<PollFlags> {
        if !self.waiting.is_empty() {
            return Some(PollFlags::OUT);
        }
        (self.kind == Kind::Pipe).then(PollFlags::empty)
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.last = true;
    }

    /// Writes what waits, as far as it is taken.
    pub(super) fn drain(&mut self) -> Drained {
        loop {
            let (front, _) = self.waiting.as_slices();
            if front.is_empty() {
                break;
            }
            match rustix::io::write(&self.file, front) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    self.written += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Drained::Broken,
            }
        }
        if self.waiting.is_empty() && self.last {
            self.close();
            return Drained::All;
        }
        if self.written < WINDOW_TO_GUEST / 2 {
            return Drained::Some { credit: 0 };
        }
        Drained::Some { credit: std::mem::take(&mut self.written) }
    }

    /// A pipe is closed by letting go of it; a socket is also read from.
    fn close(&self) {
        if self.kind == Kind::Socket {
            // Nothing to do if it is not connected any more.
            rustix::net::shutdown(&self.file, Shutdown::Write).unwrap_or_default();
        }
    }
}
