//! Channels: what the guest carries between the host and pipes, terminals and sockets inside.
//!
//! Invariant: nothing here waits. What cannot be written is kept, never more than the host was
//! given credit for; what the host gave no credit for is not read.

mod sink;

use std::{collections::BTreeMap, io, os::fd::OwnedFd, rc::Rc};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    time::Timespec,
};

use self::sink::{Drained, Sink};
use super::{
    events::{Event, Wanted},
    leaving::Source,
};
use crate::{
    control::Control,
    protocol::{Flow, MOST_DATA, WINDOW_TO_HOST},
    wire::{DATA_HEADER, data_header},
};

/// What a channel leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pipe,
    Terminal,
    Socket,
}

/// All that are open, by their numbers.
#[derive(Default)]
pub(super) struct Channels {
    open: BTreeMap<u32, Channel>,
    /// Where frames are put together.
    scratch: Vec<u8>,
}

struct Channel {
    kind: Kind,
    /// What the host is sent comes from here, while it lasts.
    source: Option<Rc<OwnedFd>>,
    /// How many bytes the host still takes.
    credit: usize,
    /// What the host sends goes here, while it is taken.
    sink: Option<Sink>,
    /// Whether the host may send more.
    hears: bool,
}

/// What a channel carries, and where to.
pub(super) enum Ends {
    /// From here to the host.
    Source(OwnedFd),
    /// From the host to here.
    Sink(OwnedFd),
    /// Both ways.
    Both(Rc<OwnedFd>),
}

impl Channels {
    /// Carries `ends`, which never block.
    pub(super) fn open(&mut self, channel: u32, kind: Kind, ends: Ends) {
        let (source, sink) = match ends {
            Ends::Source(source) => (Some(Rc::new(source)), None),
            Ends::Sink(sink) => (None, Some(Rc::new(sink))),
            Ends::Both(both) => (Some(Rc::clone(&both)), Some(both)),
        };
        let hears = sink.is_some();
        let sink = sink.map(|it| Sink::new(it, kind));
        self.open
            .insert(channel, Channel { kind, source, credit: WINDOW_TO_HOST, sink, hears });
    }

    /// How many of the channels from `first` on are open.
    pub(super) fn count_from(&self, first: u32) -> usize {
        self.open.range(first..).count()
    }

    /// What to wait for.
    pub(super) fn wanted<'a>(&'a self, wanted: &mut Wanted<'a>) {
        for (id, channel) in &self.open {
            if let Some(source) = channel.source.as_ref().filter(|_| 0 < channel.credit) {
                wanted.push(Event::Source(*id), PollFd::new(source, PollFlags::IN));
            }
            if let Some(sink) = &channel.sink
                && let Some(flags) = sink.wants()
            {
                wanted.push(Event::Sink(*id), PollFd::new(sink.file(), flags));
            }
        }
    }

    /// Reads once from the source of `channel`, and sends it to the host.
    pub(super) fn pump(&mut self, id: u32, control: &Control) -> io::Result<usize> {
        let Some(channel) = self.open.get_mut(&id) else { return Ok(0) };
        let Some(source) = &channel.source else { return Ok(0) };
        self.scratch.resize(DATA_HEADER + MOST_DATA, 0);
        let most = channel.credit.min(MOST_DATA);
        let room = self.scratch.get_mut(DATA_HEADER..DATA_HEADER + most).unwrap_or_default();
        match rustix::io::read(source, room) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            // The end, or a terminal or a socket whose other end is gone.
            Ok(0) | Err(_) => self.finish(id, control).map(|()| 0),
            Ok(count) => {
                channel.credit -= count;
                let header = data_header(id, count);
                self.scratch.iter_mut().zip(header).for_each(|(to, from)| *to = from);
                control.write(self.scratch.get(..DATA_HEADER + count).unwrap_or_default())?;
                Ok(count)
            }
        }
    }

    /// Says that nothing more comes out of `channel`.
    fn finish(&mut self, id: u32, control: &Control) -> io::Result<()> {
        let Some(channel) = self.open.get_mut(&id) else { return Ok(()) };
        if channel.source.take().is_some() {
            control.flow(Flow::Finish { channel: id })?;
        }
        self.forget_if_done(id);
        Ok(())
    }

    /// Takes bytes of the host's.
    pub(super) fn take(&mut self, id: u32, bytes: &[u8]) {
        if let Some(sink) = self.open.get_mut(&id).and_then(|it| it.sink.as_mut()) {
            sink.take(bytes);
        }
    }

    /// Writes what waits for the sink of `channel`, if that can be done now.
    pub(super) fn drain(&mut self, id: u32, control: &Control) -> io::Result<()> {
        self.on_sink(id, control, Sink::drain)
    }

    /// Lets go of the sink of `channel`, which nobody reads.
    pub(super) fn break_off(&mut self, id: u32, control: &Control) -> io::Result<()> {
        self.on_sink(id, control, |_| Drained::Broken)
    }

    fn on_sink(
        &mut self,
        id: u32,
        control: &Control,
        act: impl FnOnce(&mut Sink) -> Drained,
    ) -> io::Result<()> {
        let Some(channel) = self.open.get_mut(&id) else { return Ok(()) };
        let Some(sink) = &mut channel.sink else { return Ok(()) };
        match act(sink) {
            Drained::Some { credit: 0 } => {}
            Drained::Some { credit } => {
                let bytes = u32::try_from(credit).map_err(io::Error::other)?;
                control.flow(Flow::Credit { channel: id, bytes })?;
            }
            Drained::All => channel.sink = None,
            Drained::Broken => {
                channel.sink = None;
                if channel.hears {
                    control.flow(Flow::Refuse { channel: id })?;
                }
            }
        }
        self.forget_if_done(id);
        Ok(())
    }

    /// Does what the host says about a channel; one that is gone by now needs nothing.
    pub(super) fn obey(&mut self, flow: Flow, control: &Control) -> io::Result<()> {
        match flow {
            Flow::Credit { channel, bytes } => {
                if let Some(channel) = self.open.get_mut(&channel) {
                    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
                    channel.credit = channel.credit.saturating_add(bytes);
                }
                Ok(())
            }
            Flow::Finish { channel: id } => {
                if let Some(channel) = self.open.get_mut(&id) {
                    channel.hears = false;
                    if let Some(sink) = &mut channel.sink {
                        sink.finish();
                    }
                }
                self.drain(id, control)?;
                self.forget_if_done(id);
                Ok(())
            }
            Flow::Refuse { channel } => self.finish(channel, control),
        }
    }

    /// How much of what `channel` carries is there to be read now; `None` if nothing more comes.
    pub(super) fn owes(&self, id: u32) -> Option<u64> {
        let channel = self.open.get(&id)?;
        let source = channel.source.as_ref()?;
        if channel.kind == Kind::Terminal && hung_up(source) {
            // The kernel may still be carrying it; reading tells when all of it was read.
            return Some(u64::MAX);
        }
        rustix::io::ioctl_fionread(source).ok()
    }

    /// Whether more comes out of `channel`.
    pub(super) fn source(&self, id: u32) -> Source {
        let lasts = self.open.get(&id).is_some_and(|it| it.source.is_some());
        if lasts { Source::Lasts } else { Source::Ended }
    }

    fn forget_if_done(&mut self, id: u32) {
        let done = |it: &Channel| it.source.is_none() && it.sink.is_none() && !it.hears;
        if self.open.get(&id).is_some_and(done) {
            self.open.remove(&id);
        }
    }
}

fn hung_up(file: &OwnedFd) -> bool {
    let mut ask = [PollFd::new(file, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let [answer] = match poll(&mut ask, Some(&at_once)) {
        Ok(_) => ask.map(|it| it.revents()),
        Err(_) => return false,
    };
    answer.contains(PollFlags::HUP)
}
