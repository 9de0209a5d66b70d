//! The guest's life.

mod channels;
mod dial;
mod doors;
mod events;
mod files;
mod furnish;
mod leaving;
mod program;

use std::{collections::BTreeMap, io, os::fd::OwnedFd, path::PathBuf, rc::Rc};

use bulkhead_linux::reap::ChildSignal;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait},
};

use self::{
    channels::Channels,
    dial::Dials,
    doors::Doors,
    events::{Event, Wanted},
    files::Files,
    leaving::{Leaving, Leavings, Source},
};
use crate::{
    control::Control,
    protocol::{After, Flow, Start, ToGuest, ToHost},
    wire::{Arrived, Frame},
};

/// Where everything that is written outside the workspace goes, unless the host says otherwise:
/// `/tmp` is part of it.
const SCRATCH: &str = "/tmp";

/// Serves the host on `control` until the host is gone.
///
/// # Guarantees
/// When this returns, PID 1 ends, and with it every process of the sandbox.
pub fn serve(control: Control) -> io::Result<()> {
    let children = ChildSignal::watch()?;
    let mut guest = Guest {
        control,
        children,
        running: BTreeMap::new(),
        leavings: Leavings::default(),
        channels: Channels::default(),
        dials: Dials::default(),
        doors: Doors::default(),
        files: Files::default(),
        scratch: vec![PathBuf::from(SCRATCH)],
    };
    loop {
        for event in guest.wait()? {
            if guest.attend(event)? == After::End {
                // The kernel closes everything faster than we do.
                std::mem::forget(guest);
                return Ok(());
            }
        }
    }
}

struct Guest {
    control: Control,
    children: ChildSignal,
    /// The programs that the host asked for, by process.
    running: BTreeMap<i32, Running>,
    leavings: Leavings,
    channels: Channels,
    dials: Dials,
    doors: Doors,
    files: Files,
    /// Where everything that is written outside the workspace goes.
    scratch: Vec<PathBuf>,
}

/// A program that the host asked for.
struct Running {
    id: u32,
    after: After,
    /// The channels that carry what it writes.
    carried: Vec<u32>,
    /// The other end of its terminal, if that is carried.
    terminal: Option<Rc<OwnedFd>>,
}

impl Guest {
    /// Waits until something happens.
    fn wait(&self) -> Result<Vec<Event>, Errno> {
        let mut wanted = Wanted::default();
        wanted.push(Event::Child, PollFd::new(&self.children, PollFlags::IN));
        let control = self.control.input();
        wanted.push(Event::Control, PollFd::from_borrowed_fd(control, PollFlags::IN));
        self.dials.wanted(&mut wanted);
        self.doors.wanted(&self.channels, &mut wanted);
        self.files.wanted(&mut wanted);
        self.channels.wanted(&mut wanted);
        wanted.wait()
    }

    /// Does what `event` calls for.
    fn attend(&mut self, event: Event) -> io::Result<After> {
        match event {
            Event::Child => {
                self.children.clear()?;
                return self.reap();
            }
            Event::Control => {
                return match self.hear()? {
                    // What the host refused is not waited for any more.
                    Arrived::Some => self.leavings.tell(&self.control),
                    Arrived::End => Ok(After::End),
                };
            }
            Event::Source(channel) => {
                let count = self.channels.pump(channel, &self.control)?;
                let source = self.channels.source(channel);
                if source == Source::Ended {
                    self.doors.relieved();
                }
                if self.leavings.paid(channel, count, source) {
                    return self.leavings.tell(&self.control);
                }
            }
            Event::Sink(channel) => self.channels.drain(channel, &self.control)?,
            Event::Broken(channel) => self.channels.break_off(channel, &self.control)?,
            Event::Dial(channel) => {
                self.dials.look(channel, &mut self.channels, &self.control)?;
            }
            Event::Files => self.files.tell(&self.control)?,
            Event::Door(at) => self.doors.answer(at, &mut self.channels, &self.control)?,
        }
        Ok(After::Stay)
    }

    fn hear(&mut self) -> io::Result<Arrived> {
        let arrived = self.control.hear()?;
        loop {
            match self.control.frame()? {
                None => return Ok(arrived),
                Some(Frame::Message(message)) => self.obey(message)?,
                Some(Frame::Data { channel, bytes }) => {
                    self.channels.take(channel, bytes);
                    self.channels.drain(channel, &self.control)?;
                }
            }
        }
    }

    fn obey(&mut self, message: ToGuest) -> io::Result<()> {
        match message {
            ToGuest::Furnish(order) => {
                if let Err(source) = furnish::compare(order.expected) {
                    return self.fail("find what was to be shared", source);
                }
                let furnished = furnish::make(&order.files);
                self.scratch = order.scratch.into_iter().map(furnish::path).collect();
                furnished.or_else(|source| self.fail("make a file of the home", source))
            }
            ToGuest::Raise(_) if self.files.were_served() => {
                let source = io::Error::other("a thread would stay without them");
                self.fail("put walls up after files were served", source)
            }
            ToGuest::Raise(walls) => match walls.raise() {
                Ok(()) => self.control.say(&ToHost::Ready),
                Err(failed) => self.fail(&failed.action, failed.source),
            },
            ToGuest::Start(start) => self.start(start),
            ToGuest::Signal { id, signal } => self.signal(id, signal),
            ToGuest::Resize { id, size } => {
                let running = self.running.values().find(|it| it.id == id);
                if let Some(terminal) = running.and_then(|it| it.terminal.as_ref()) {
                    program::resize(terminal, size)?;
                }
                Ok(())
            }
            ToGuest::Connect { channel, to } => {
                self.dials.begin(channel, to, &mut self.channels, &self.control)
            }
            ToGuest::Listen(order) => {
                let id = order.id;
                self.control.say(&match self.doors.open_all(&order) {
                    Ok(()) => ToHost::Listening { id },
                    Err(errno) => ToHost::NotListening { id, errno: errno.raw_os_error() },
                })
            }
            ToGuest::Leave { id } => {
                self.doors.close_all(id);
                Ok(())
            }
            ToGuest::Datagram(datagram) => {
                self.doors.send(&datagram);
                Ok(())
            }
            ToGuest::File(order) => self.files.begin(order, &mut self.channels, &self.control),
            ToGuest::Commit { id } => {
                self.files.commit(id);
                Ok(())
            }
            ToGuest::Flow(flow) => {
                if let Flow::Refuse { channel } = &flow {
                    self.leavings.paid(*channel, 0, Source::Ended);
                }
                self.channels.obey(flow, &self.control)
            }
        }
    }

    /// Tells the host why there will be no sandbox.
    fn fail(&self, action: &str, source: io::Error) -> io::Result<()> {
        self.control.fail(action, &source)?;
        Err(source)
    }

    fn start(&mut self, start: Start) -> io::Result<()> {
        let (id, after) = (start.id, start.after);
        match program::start(start, &mut self.control, &mut self.channels) {
            Ok(started) => {
                let (carried, terminal) = (started.carried, started.terminal);
                let running = Running { id, after, carried, terminal };
                let pid = started.pid.as_raw_nonzero().get();
                self.running.insert(pid, running);
                let told = ToHost::Started { id, pid: pid.unsigned_abs() };
                match started.hand_over {
                    None => self.control.say(&told),
                    Some(host) => self.control.hand_over(&told, &host),
                }
            }
            Err(failed) => {
                let errno = failed.source.raw_os_error().unwrap_or_default();
                self.control.say(&ToHost::NotStarted { id, stage: failed.stage, errno })
            }
        }
    }

    fn signal(&self, id: u32, signal: i32) -> io::Result<()> {
        let group = self.running.iter().find(|(_, it)| it.id == id);
        let group = group.and_then(|(pid, _)| Pid::from_raw(*pid));
        let (Some(group), Some(signal)) = (group, Signal::from_named_raw(signal)) else {
            return Ok(());
        };
        match kill_process_group(group, signal) {
            // Gone already: its end is on the way to the host.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for every child that has ended, ours or an orphan.
    fn reap(&mut self) -> io::Result<After> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) | Err(Errno::CHILD) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.leavings.tell(&self.control)
    }

    /// Notes the end of a program. It is told when what it wrote has been carried.
    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let Some(running) = self.running.remove(&pid.as_raw_nonzero().get()) else { return };
        let left = |channel: &u32| Some((*channel, self.channels.owes(*channel)?));
        let owed = running.carried.iter().filter_map(left).filter(|(_, it)| 0 < *it).collect();
        let disk = furnish::room_left(&self.scratch);
        let message = leaving::message(running.id, status, disk);
        self.leavings.push(Leaving::new(message, running.after, owed));
    }
}
