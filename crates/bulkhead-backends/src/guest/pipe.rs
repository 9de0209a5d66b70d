//! One channel, as both its user and the driver see it.

use std::{
    collections::VecDeque,
    task::{Poll, Waker},
};

use bulkhead_guest::protocol::{MOST_DATA, WINDOW_TO_GUEST, WINDOW_TO_HOST};
use tokio::io::ReadBuf;

/// Both directions of a channel.
pub(super) struct Pipe {
    /// From the guest.
    pub(super) hearing: Hearing,
    /// To the guest.
    pub(super) speaking: Speaking,
}

pub(super) struct Hearing {
    arrived: VecDeque<u8>,
    /// How many bytes the guest may still send.
    window: usize,
    /// Bytes that were taken since the guest was last given credit.
    taken: usize,
    /// Whether the guest may send more.
    open: bool,
    /// Whether what arrives is wanted.
    wanted: bool,
    reader: Option<Waker>,
}

pub(super) struct Speaking {
    /// How many bytes the guest still takes.
    credit: usize,
    /// Whether we may send more.
    open: bool,
    /// Whether the guest wants more.
    wanted: bool,
    writer: Option<Waker>,
}

/// Which directions a new channel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    FromGuest,
    ToGuest,
    Both,
}

impl Pipe {
    pub(super) fn new(ways: Ways) -> Self {
        let hearing = Hearing {
            arrived: VecDeque::new(),
            window: WINDOW_TO_HOST,
            taken: 0,
            open: ways != Ways::ToGuest,
            wanted: true,
            reader: None,
        };
        let speaking = Speaking {
            credit: WINDOW_TO_GUEST,
            open: ways != Ways::FromGuest,
            wanted: true,
            writer: None,
        };
        Self { hearing, speaking }
    }

    /// Whether nothing more is sent in either direction.
    pub(super) fn is_over(&self) -> bool {
        !self.hearing.open && !self.speaking.open
    }

    /// The stream is gone.
    pub(super) fn break_off(&mut self) {
        self.hearing.finish();
        self.speaking.open = false;
        self.speaking.refuse();
    }
}

impl Hearing {
    /// Takes what the guest sent; says what is wrong with it.
    pub(super) fn arrive(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if !self.open {
            return Err("bytes in a channel that it had finished");
        }
        self.window =
            self.window.checked_sub(bytes.len()).ok_or("more bytes than its credit")?;
        if self.wanted {
            self.arrived.extend(bytes);
            self.wake();
        }
        Ok(())
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.open = false;
        self.wake();
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Nobody reads any more; says whether the guest should know.
    pub(super) fn abandon(&mut self) -> bool {
        self.wanted = false;
        self.arrived = VecDeque::new();
        self.open
    }

    /// Reads what has arrived; says how much credit to give to the guest.
    pub(super) fn poll_take(&mut self, into: &mut ReadBuf<'_>, waker: &Waker) -> Poll<usize> {
        let (front, _) = self.arrived.as_slices();
        if front.is_empty() {
            if self.open {
                self.reader = Some(waker.clone());
                return Poll::Pending;
            }
            return Poll::Ready(0);
        }
        let count = front.len().min(into.remaining());
        into.put_slice(front.get(..count).unwrap_or_default());
        self.arrived.drain(..count);
        self.taken += count;
        if self.taken < WINDOW_TO_HOST / 2 || !self.open {
            return Poll::Ready(0);
        }
        self.window += self.taken;
        Poll::Ready(std::mem::take(&mut self.taken))
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Speaking {
    /// The guest takes more; says what is wrong with that.
    pub(super) fn grant(&mut self, bytes: u32) -> Result<(), &'static str> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let credit = self.credit.checked_add(bytes).filter(|it| *it <= WINDOW_TO_GUEST);
        self.credit = credit.ok_or("credit for more than it was sent")?;
        self.wake();
        Ok(())
    }

    /// The guest wants no more.
    pub(super) fn refuse(&mut self) {
        self.wanted = false;
        self.wake();
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// How many of `wanted` bytes can be sent now, which are then counted as sent.
    pub(super) fn poll_spend(&mut self, wanted: usize, waker: &Waker) -> Poll<usize> {
        let count = wanted.min(self.credit).min(MOST_DATA);
        if count == 0 && wanted != 0 {
            self.writer = Some(waker.clone());
            return Poll::Pending;
        }
        self.credit -= count;
        Poll::Ready(count)
    }

    /// We send no more; says whether the guest should know.
    pub(super) fn finish(&mut self) -> bool {
        std::mem::replace(&mut self.open, false)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}
