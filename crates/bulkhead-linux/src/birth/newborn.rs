//! A child that is there.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{OnceLock, atomic::Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid},
};

use super::{
    StepFailed,
    grow::{AT_NAMESPACES, Shared},
};
use crate::{
    clone::{Child, Stack},
    midwife::Midwife,
    network,
    offspring::Offspring,
};

/// A child that is on its way to become the guest, or has.
///
/// Dropping it kills the child, and with it every process of its namespace.
#[derive(Debug)]
pub struct Newborn {
    pidfd: OwnedFd,
    pid: Pid,
    reaped: bool,
    offspring: Option<Offspring>,
    /// A socket in its network, as long as loopback is off there.
    network: Option<OwnedFd>,
    // Declared after the descriptors, dropped after `Drop` has waited for the child: it runs on
    // this memory until it executes the guest.
    memory: Option<Memory>,
}

/// What the child runs on.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) shared: Box<Shared>,
    pub(super) ground: Ground,
}

/// Where its stack is.
#[derive(Debug)]
pub(super) enum Ground {
    /// With the midwife, who is gone.
    Midwife(Midwife),
    Own {
        _stack: Stack,
    },
}

impl Memory {
    /// Whether the child has left it.
    fn is_left(&self) -> bool {
        let runs = match &self.ground {
            Ground::Midwife(midwife) => midwife.unborn().map(|it| &it.runs),
            Ground::Own { .. } => Some(&self.shared.runs),
        };
        runs.is_some_and(|it| it.load(Ordering::Acquire) == 0)
    }
}

impl Newborn {
    /// `child`, which runs on `memory`; `network` is a socket in its network, if loopback is off there.
    pub(super) fn of(child: Child, network: Option<OwnedFd>, memory: Memory) -> Self {
        let Child { pid, pidfd } = child;
        let memory = Some(memory);
        Self { pidfd, pid, reaped: false, offspring: None, network, memory }
    }

    /// What it has of us, as long as it has.
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.memory.as_ref().map(|it| &*it.shared)
    }

    /// The child as the host knows it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable when the child has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Which step failed, if one did; to be asked when the child's control stream has ended.
    pub fn failure(&self) -> Option<StepFailed> {
        let shared = self.shared()?;
        let errno = shared.errno.load(Ordering::Acquire);
        if errno == 0 {
            return None;
        }
        let at = shared.at.load(Ordering::Relaxed);
        let more = shared.more.iter().filter_map(OnceLock::get).flatten();
        let action = match (at, shared.steps.iter().chain(more).nth(at)) {
            (AT_NAMESPACES, _) => "make new namespaces".to_owned(),
            (_, Some(step)) => step.to_string(),
            (_, None) => "start the guest".to_owned(),
        };
        Some(StepFailed { action, source: io::Error::from_raw_os_error(errno) })
    }

    /// Lets go of the memory that the child ran on, if it has become the guest.
    ///
    /// Whoever has heard of the guest may call this while it has nothing else to do: to let go of
    /// all steps takes a while.
    pub fn wean(&mut self) {
        if self.memory.as_ref().is_some_and(Memory::is_left) {
            self.memory = None;
        }
    }

    /// Switches loopback on in its network, if that is its own and was not done yet.
    ///
    /// It needs that only when it opens doors or starts a program; until then nobody waits for this.
    pub fn switch_loopback_on(&mut self) -> io::Result<()> {
        let Some(network) = self.network.take() else { return Ok(()) };
        Ok(network::switch_loopback_on(network.as_fd())?)
    }

    /// Finds whoever tells of the children that it has, while there is time for that: later somebody
    /// waits for the answer.
    pub fn look_for_offspring(&mut self) {
        // Whoever wants to know tries again, and hears why it cannot be.
        self.offspring = Offspring::of(self.pid).ok();
    }

    /// Ends the child, and with it every process of its namespace.
    pub fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            // Already gone is what we wanted.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether nobody is in its namespace any more who could do anything: it was told to end, and
    /// has neither children nor other threads, who could have some. Whoever loses a parent in there
    /// becomes its child.
    ///
    /// A kernel that does not tell who its children are has this always wrong, on the safe side.
    pub fn is_deserted(&self) -> io::Result<bool> {
        // From here on it makes no more of them.
        self.kill()?;
        let look = |it: &Offspring| it.is_none();
        Ok(match &self.offspring {
            Some(offspring) => look(offspring),
            None => Offspring::of(self.pid).is_ok_and(|it| look(&it)),
        })
    }

    /// Waits until the child, and so every process of its namespace, has ended.
    pub fn reap(&mut self) -> io::Result<()> {
        if self.reaped {
            return Ok(());
        }
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(_) => {}
            // Its parent was another process, whoever reaps it now.
            Err(Errno::CHILD) => self.await_end()?,
            Err(errno) => return Err(errno.into()),
        }
        self.reaped = true;
        Ok(())
    }

    fn await_end(&self) -> io::Result<()> {
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        loop {
            match poll(&mut ended, None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        // Killing and waiting fail only for a child that is gone, which is what we want.
        self.kill().unwrap_or_default();
        self.reap().unwrap_or_default();
    }
}
