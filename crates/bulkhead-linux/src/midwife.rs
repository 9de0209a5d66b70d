//! Who bears a sandbox.
//!
//! A network takes the kernel as long to make as all mounts together, and nothing must be known for
//! it. So it is begun before anything is: by a process of its own, on another processor, while the
//! parent finds out where the sandbox is to be born. When it is told, it bears the child, which is in
//! that network from the beginning, and ends. It has the memory and the descriptors of the parent, so
//! the rules for such children hold for it as well.

use std::{
    io,
    os::fd::{AsFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd},
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid},
};

use crate::{
    beside,
    clone::{Child, Cradle, Stack, Told, clone},
    network, orphan, sys,
};

/// Whose network a sandbox is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// One of its own, with loopback alone.
    Own,
    /// The host's.
    Host,
}

/// A process that makes what a child is born in. Dropping it ends it.
#[derive(Debug)]
pub struct Midwife {
    pid: Pid,
    pidfd: OwnedFd,
    ended: bool,
    // Dropped after `Drop` has waited for the process, which runs on this memory.
    bag: Box<Bag>,
    _stack: Stack,
}

/// What the midwife sees of the parent's memory.
#[derive(Debug)]
struct Bag {
    network: Network,
    /// The processor of the parent when she was called.
    parents: usize,
    /// Readable when she is called.
    called: OwnedFd,
    /// Readable when the parent has ended.
    parent: OwnedFd,
    unborn: OnceLock<Unborn>,
    /// A socket in the network that she has made.
    socket: AtomicI32,
    /// The child, when it is there.
    child: Told,
    /// How far she came, and what the kernel said if that was not far enough.
    stage: AtomicU32,
    errno: AtomicI32,
}

/// A child to be born.
#[derive(Debug)]
pub(crate) struct Unborn {
    /// The cgroup it is born in, where the kernel can do that.
    pub(crate) cgroup: Option<OwnedFd>,
    /// What it runs on.
    pub(crate) stack: Stack,
    /// What it does: a function and its argument.
    pub(crate) body: extern "C" fn(*const ()) -> !,
    pub(crate) context: usize,
    /// 0 when it has left the parent's memory.
    pub(crate) runs: AtomicI32,
}

/// Why there is no child.
#[derive(Debug)]
pub(crate) struct Stillbirth {
    pub(crate) action: &'static str,
    pub(crate) source: io::Error,
}

/// What she does, in order.
const ACTIONS: [&str; 3] = ["make a network", "wait for the parent", "make new namespaces"];

impl Midwife {
    /// Makes the process, with the user namespace of the child, and lets it begin.
    pub fn call(network: Network) -> io::Result<Self> {
        let parents = beside::here();
        let bag = Box::new(Bag {
            network,
            parents,
            called: eventfd(0, EventfdFlags::CLOEXEC)?,
            parent: orphan::parent_to_be()?,
            unborn: OnceLock::new(),
            socket: AtomicI32::new(-1),
            child: Told::nothing(),
            stage: AtomicU32::new(0),
            errno: AtomicI32::new(0),
        });
        let (stack, told) = (Stack::new()?, Told::nothing());
        // The host name is the cheapest of what takes rights in the user namespace: a host that
        // gives none says so here.
        let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWUTS | libc::CLONE_FILES;
        let cradle = Cradle { flags, cgroup: None, leaves: None, stack: &stack, told: &told };
        // SAFETY: `bag` is boxed and outlives the process like its stack, because both are dropped
        // after it was waited for; `attend` allocates nothing and never returns.
        unsafe { clone(&cradle, attend, &raw const *bag) }?;
        let Child { pid, pidfd } = told.take().ok_or(Errno::CHILD)?;
        beside::begin(pid, parents);
        Ok(Self { pid, pidfd, ended: false, bag, _stack: stack })
    }

    /// The process as the host knows it: it is in the user namespace of the child.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable in the child, too, when this process has ended.
    pub(crate) fn parent(&self) -> &OwnedFd {
        &self.bag.parent
    }

    /// Has her bear the child as soon as she can.
    pub(crate) fn deliver(&self, unborn: Unborn) -> io::Result<()> {
        let known = self.bag.unborn.set(unborn);
        known.map_err(|_| io::Error::other("she has a child to bear already"))?;
        rustix::io::write(&self.bag.called, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// The child that she was called for.
    pub(crate) fn unborn(&self) -> Option<&Unborn> {
        self.bag.unborn.get()
    }

    /// Waits until the child is there; she is gone then.
    pub(crate) fn await_birth(&mut self) -> Result<Child, Stillbirth> {
        let failed = |action, source| Stillbirth { action, source };
        self.reap().map_err(|errno| failed("wait for the birth", errno.into()))?;
        if let Some(child) = self.bag.child.take() {
            return Ok(child);
        }
        let at = self.bag.stage.load(Ordering::Relaxed) as usize;
        let action = ACTIONS.get(at).copied().unwrap_or_default();
        let source = match self.bag.errno.load(Ordering::Acquire) {
            0 => io::Error::other("it was ended"),
            errno => io::Error::from_raw_os_error(errno),
        };
        Err(failed(action, source))
    }

    /// A socket in the network that she has made, once, if she has: loopback is to be switched on there
    /// by whoever has time for it.
    pub(crate) fn network(&self) -> Option<OwnedFd> {
        let socket = self.bag.socket.swap(-1, Ordering::AcqRel);
        // SAFETY: she has left it in our table for us, and it is taken once.
        (0 <= socket).then(|| unsafe { OwnedFd::from_raw_fd(socket) })
    }

    fn reap(&mut self) -> Result<(), Errno> {
        while !self.ended {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                // A process that ignores the ends of its children hears of them by their absence.
                Ok(_) | Err(Errno::CHILD) => self.ended = true,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl Drop for Midwife {
    fn drop(&mut self) {
        if self.ended {
            drop(self.network());
            return;
        }
        // Fails only for one that is gone, which is what we want.
        let kill = |it: &OwnedFd| pidfd_send_signal(it, Signal::KILL).unwrap_or_default();
        kill(&self.pidfd);
        if let Ok(Child { pidfd, .. }) = self.await_birth() {
            kill(&pidfd);
            waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).ok();
        }
        drop(self.network());
    }
}

/// Her whole life.
extern "C" fn attend(bag: *const Bag) -> ! {
    // SAFETY: the parent keeps it until we are gone.
    let bag = unsafe { &*bag };
    if let Err(errno) = work(bag) {
        bag.errno.store(errno.raw_os_error(), Ordering::Release);
        sys::exit(125)
    }
    sys::exit(0)
}

fn work(bag: &Bag) -> Result<(), Errno> {
    beside::step_aside(bag.parents);
    match bag.network {
        Network::Own => bag.socket.store(network::leave()?.into_raw_fd(), Ordering::Release),
        Network::Host => {}
    }
    bag.stage.store(1, Ordering::Relaxed);
    orphan::await_readable(bag.called.as_fd(), bag.parent.as_fd())?;
    let unborn = bag.unborn.get().ok_or(Errno::CHILD)?;
    bag.stage.store(2, Ordering::Relaxed);
    let cradle = Cradle {
        flags: libc::CLONE_NEWPID | libc::CLONE_PARENT,
        cgroup: unborn.cgroup.as_ref().map(OwnedFd::as_fd),
        leaves: Some(&unborn.runs),
        stack: &unborn.stack,
        told: &bag.child,
    };
    let context = std::ptr::with_exposed_provenance(unborn.context);
    // SAFETY: whoever has called keeps all of it until the child has left it.
    unsafe { clone(&cradle, unborn.body, context) }
}
