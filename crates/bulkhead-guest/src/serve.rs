//! The guest's life.

mod program;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use bulkhead_linux::reap::{ChildSignal, children_used};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait},
};

use crate::{
    protocol::{After, Counted, Disk, MOST_TO_GUEST, Status, ToGuest, ToHost},
    wire::{Arrived, Inbox, encode, send_all},
};

/// Where everything that is written outside the workspace goes: `/tmp` is part of it.
const SCRATCH: &str = "/tmp";

/// Serves the host on `control` until the host is gone.
///
/// # Guarantees
/// When this returns, PID 1 ends, and with it every process of the sandbox.
pub fn serve(control: OwnedFd) -> io::Result<()> {
    let children = ChildSignal::watch()?;
    let mut guest =
        Guest { control, inbox: Inbox::new(MOST_TO_GUEST), running: BTreeMap::new() };
    loop {
        let mut wanted =
            [PollFd::new(&guest.control, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [control, child] = wanted.map(|it| !it.revents().is_empty());
        if child {
            children.clear()?;
            if guest.reap()? == After::End {
                return Ok(());
            }
        }
        if control && guest.hear()? == Arrived::End {
            return Ok(());
        }
    }
}

struct Guest {
    control: OwnedFd,
    inbox: Inbox,
    /// The programs that the host asked for, by process.
    running: BTreeMap<i32, (u32, After)>,
}

impl Guest {
    fn hear(&mut self) -> io::Result<Arrived> {
        let arrived = self.inbox.fill(&self.control)?;
        while let Some(message) = self.inbox.message()? {
            self.obey(message)?;
        }
        Ok(arrived)
    }

    fn obey(&mut self, message: ToGuest) -> io::Result<()> {
        match message {
            ToGuest::Raise(walls) => match walls.raise() {
                Ok(()) => self.say(&ToHost::Ready, None),
                Err(failed) => {
                    let errno = failed.source.raw_os_error().unwrap_or_default();
                    let action = failed.action.to_owned();
                    self.say(&ToHost::Failed { action, errno }, None)?;
                    Err(failed.source)
                }
            },
            ToGuest::Start(start) => {
                let (id, after) = (start.id, start.after);
                match program::start(start, &mut self.inbox) {
                    Ok((pid, terminal)) => {
                        self.running.insert(pid.as_raw_nonzero().get(), (id, after));
                        self.say(&ToHost::Started { id }, terminal.as_ref())
                    }
                    Err(failed) => {
                        let errno = failed.source.raw_os_error().unwrap_or_default();
                        self.say(&ToHost::NotStarted { id, stage: failed.stage, errno }, None)
                    }
                }
            }
            ToGuest::Signal { id, signal } => self.signal(id, signal),
        }
    }

    fn signal(&self, id: u32, signal: i32) -> io::Result<()> {
        let group = self.running.iter().find(|(_, (it, _))| *it == id);
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
                Ok(Some((pid, status))) => {
                    if self.ended(pid, status)? == After::End {
                        return Ok(After::End);
                    }
                }
                Ok(None) | Err(Errno::CHILD) => return Ok(After::Stay),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) -> io::Result<After> {
        let Some((id, after)) = self.running.remove(&pid.as_raw_nonzero().get()) else {
            return Ok(After::Stay);
        };
        let status = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => Status::Signaled(signal.unwrap_or_default()),
        };
        let (cpu_micros, largest_kib) = children_used();
        let counted = Counted { cpu_micros, largest_kib };
        self.say(&ToHost::Ended { id, status, disk: disk(), counted }, None)?;
        Ok(after)
    }

    fn say(&self, message: &ToHost, descriptor: Option<&OwnedFd>) -> io::Result<()> {
        let descriptors: Vec<_> = descriptor.iter().map(|it| it.as_fd()).collect();
        send_all(&self.control, &encode(message)?, &descriptors)
    }
}

fn disk() -> Disk {
    let full = rustix::fs::statvfs(SCRATCH).is_ok_and(|it| {
        let sized = it.f_blocks != 0;
        sized && (it.f_bavail == 0 || it.f_favail == 0)
    });
    if full { Disk::Full } else { Disk::Room }
}
