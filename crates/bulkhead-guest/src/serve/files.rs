//! Files, served with the sandbox's own rights.
//!
//! Each order is done by a thread of its own, made when it comes: a disk that is slow, or a host
//! that reads slowly, holds up nothing else. A thread is joined to its channel by a pipe, so the
//! bytes flow as those of a program do, and a host that goes away breaks the pipe.
//!
//! Invariant: threads are made after the walls stand, which hold for them too.

mod bytes;
mod look;
mod names;
mod notes;
mod tree;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd},
    io::{Errno, ioctl_fionbio},
    pipe::{PipeFlags, pipe_with},
};

use super::{
    channels::{Channels, Ends, Kind as Leads},
    events::{Event, Wanted},
};
use crate::{
    control::Control,
    protocol::{
        Flow, ToHost,
        files::{Ask, FileOrder, Filed, MOST_FILE_ORDERS, MOST_WATCHES},
    },
};

/// A thread here goes through directories without recursion.
const STACK: usize = 256 << 10;

/// All orders that are being done.
#[derive(Default)]
pub(super) struct Files {
    /// Made with the first order.
    answers: Option<Arc<Answers>>,
    running: BTreeMap<u32, Running>,
}

struct Running {
    /// Whether what is written counts.
    commit: Arc<AtomicBool>,
    watch: bool,
}

/// What threads have to say, and how they wake the guest.
pub(super) struct Answers {
    said: Mutex<Vec<Said>>,
    bell: OwnedFd,
}

struct Said {
    id: u32,
    filed: Option<Filed>,
    /// Whether the thread is done.
    last: bool,
}

/// What a thread is given to do its order.
pub(super) struct Task {
    id: u32,
    answers: Arc<Answers>,
    commit: Arc<AtomicBool>,
    /// Its end of the channel.
    pipe: Option<OwnedFd>,
}

impl Task {
    /// Answers before the order is done.
    fn answer(&self, filed: Filed) {
        self.answers.say(Said { id: self.id, filed: Some(filed), last: false });
    }

    /// Its end of the channel.
    fn pipe(&self) -> Result<&OwnedFd, Errno> {
        self.pipe.as_ref().ok_or(Errno::BADF)
    }

    /// Whether what came is all of it, and counts; to be asked at its end.
    fn is_committed(&self) -> bool {
        self.commit.load(Ordering::Acquire)
    }
}

impl Answers {
    fn say(&self, said: Said) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        // It can only fail if it rings already.
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).unwrap_or_default();
    }
}

/// Why an order failed.
pub(super) enum Refused {
    Kernel(Errno),
    NotAFile(crate::protocol::files::Kind),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Kernel(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Files {
    /// Whether any thread was ever made.
    pub(super) fn were_served(&self) -> bool {
        self.answers.is_some()
    }

    pub(super) fn wanted<'a>(&'a self, wanted: &mut Wanted<'a>) {
        if let Some(answers) = &self.answers {
            wanted.push(Event::Files, PollFd::new(&answers.bell, PollFlags::IN));
        }
    }

    /// Has an order done.
    pub(super) fn begin(
        &mut self,
        FileOrder { id, ask }: FileOrder,
        channels: &mut Channels,
        control: &Control,
    ) -> io::Result<()> {
        let source = source(&ask);
        let Err(errno) = self.try_begin(id, ask, channels) else { return Ok(()) };
        if let Some(channel) = source {
            control.flow(Flow::Finish { channel })?;
        }
        let filed = Filed::Failed { errno: errno.raw_os_error() };
        control.say(&ToHost::Filed { id, filed })
    }

    fn try_begin(&mut self, id: u32, ask: Ask, channels: &mut Channels) -> Result<(), Errno> {
        let watch = matches!(ask, Ask::Watch { .. });
        let most = if watch { MOST_WATCHES } else { MOST_FILE_ORDERS };
        if most <= self.running.values().filter(|it| it.watch == watch).count() {
            return Err(Errno::BUSY);
        }
        if self.answers.is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let (said, bell) = (Mutex::default(), eventfd(0, flags)?);
            self.answers = Some(Arc::new(Answers { said, bell }));
        }
        let answers = self.answers.clone().ok_or(Errno::AGAIN)?;
        let (ours, theirs) = ends(&ask)?;
        let commit = Arc::new(AtomicBool::new(false));
        let task = Task { id, answers, commit: Arc::clone(&commit), pipe: theirs };
        let thread = thread::Builder::new().stack_size(STACK);
        let made = thread.spawn(move || perform(ask, task));
        made.map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::AGAIN))?;
        self.running.insert(id, Running { commit, watch });
        if let Some((channel, ends)) = ours {
            channels.open(channel, Leads::Pipe, ends);
        }
        Ok(())
    }

    /// What was written for the order `id` counts.
    pub(super) fn commit(&self, id: u32) {
        if let Some(running) = self.running.get(&id) {
            running.commit.store(true, Ordering::Release);
        }
    }

    /// Tells the host what the threads have said.
    pub(super) fn tell(&mut self, control: &Control) -> io::Result<()> {
        let Some(answers) = &self.answers else { return Ok(()) };
        match rustix::io::read(&answers.bell, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        let said =
            std::mem::take(&mut *answers.said.lock().unwrap_or_else(PoisonError::into_inner));
        for Said { id, filed, last } in said {
            if last {
                self.running.remove(&id);
            }
            if let Some(filed) = filed {
                control.say(&ToHost::Filed { id, filed })?;
            }
        }
        Ok(())
    }
}

/// The guest's end of a channel, and the thread's.
type Pair = (Option<(u32, Ends)>, Option<OwnedFd>);

fn ends(ask: &Ask) -> Result<Pair, Errno> {
    if let Some(channel) = source(ask) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&reader, true)?;
        return Ok((Some((channel, Ends::Source(reader))), Some(writer)));
    }
    if let Ask::Write { channel, .. } | Ask::Unpack { channel, .. } = *ask {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&writer, true)?;
        return Ok((Some((channel, Ends::Sink(writer))), Some(reader)));
    }
    Ok((None, None))
}

/// The channel in which the host is sent something.
fn source(ask: &Ask) -> Option<u32> {
    match *ask {
        Ask::List { channel, .. }
        | Ask::Read { channel, .. }
        | Ask::Pack { channel, .. }
        | Ask::Watch { channel, .. } => Some(channel),
        Ask::Write { .. }
        | Ask::Unpack { .. }
        | Ask::Stat { .. }
        | Ask::MakeDirs { .. }
        | Ask::Move { .. }
        | Ask::Remove { .. }
        | Ask::Set { .. }
        | Ask::Link { .. } => None,
    }
}

/// What a thread does.
fn perform(ask: Ask, mut task: Task) {
    let done = |()| Some(Filed::Done);
    let result = match ask {
        Ask::Stat { path, follow } => look::facts(&path, follow).map(|it| Some(Filed::Is(it))),
        Ask::List { path, depth, .. } => tree::list(&path, depth, &task).map(|()| None),
        Ask::Read { path, offset, length, .. } => {
            bytes::read(&path, offset, length, &task).map(done)
        }
        Ask::Write { path, put, mode, notes, .. } => {
            bytes::write(&path, put, (mode, notes.as_ref()), &task).map(done)
        }
        Ask::MakeDirs { path, mode } => names::make_dirs(&path, mode).map(done),
        Ask::Move { from, to, onto } => names::rename(&from, &to, onto).map(done),
        Ask::Remove { path, depth } => names::remove(&path, depth).map(done),
        Ask::Set { path, mode, modified } => names::set(&path, mode, modified).map(done),
        Ask::Link { path, target } => names::link(&path, &target).map(done),
        Ask::Pack { path, .. } => tree::pack(&path, &task).map(|()| None),
        Ask::Unpack { path, .. } => tree::unpack(&path, &task).map(done),
        Ask::Watch { path, depth, .. } => watch::watch(&path, depth, &task).map(|()| None),
    };
    let filed = match result {
        Ok(filed) => filed,
        Err(Refused::Kernel(errno)) => Some(Filed::Failed { errno: errno.raw_os_error() }),
        Err(Refused::NotAFile(kind)) => Some(Filed::NotAFile { kind }),
    };
    // The channel ends before the host hears that this is done.
    task.pipe = None;
    task.answers.say(Said { id: task.id, filed, last: true });
}
