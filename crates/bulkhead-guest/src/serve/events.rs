//! What the guest waits for.

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The host has said something.
    Control,
    /// A child has ended.
    Child,
    /// The source of a channel has bytes, or has ended.
    Source(u32),
    /// The sink of a channel takes bytes.
    Sink(u32),
    /// Nobody reads the sink of a channel any more.
    Broken(u32),
    /// A connection stands, or will not.
    Dial(u32),
    /// Something was done about files.
    Files,
    /// Somebody came to a listener, the n-th.
    Door(usize),
}

/// Everything that is waited for.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    events: Vec<Event>,
    files: Vec<PollFd<'a>>,
}

impl<'a> Wanted<'a> {
    pub(super) fn push(&mut self, event: Event, file: PollFd<'a>) {
        self.events.push(event);
        self.files.push(file);
    }

    /// Waits until something has happened.
    pub(super) fn wait(mut self) -> Result<Vec<Event>, Errno> {
        match poll(&mut self.files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        }
        let happened = |(event, file): (Event, PollFd<'_>)| match (event, file.revents()) {
            (_, flags) if flags.is_empty() => None,
            (Event::Sink(id), flags) if flags.contains(PollFlags::ERR) => {
                Some(Event::Broken(id))
            }
            (event, _) => Some(event),
        };
        Ok(self.events.into_iter().zip(self.files).filter_map(happened).collect())
    }
}
