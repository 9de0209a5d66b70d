//! The birth of a sandbox: a child with new namespaces applies its steps and becomes the guest.

mod grow;
mod newborn;

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, RawFd},
    sync::atomic::AtomicI32,
};

use rustix::{io::Errno, process::Pid};

pub use self::newborn::Newborn;
use self::{
    grow::{Alone, Shared, grow},
    newborn::{Ground, Memory},
};
use crate::{
    clone::{Cradle, Stack, Told, clone},
    midwife::{Midwife, Network, Unborn},
    orphan,
    steps::Step,
};

/// A sandbox to be born.
pub struct Embryo<'a> {
    /// What the child does first; the last of these steps waits for more.
    pub steps: Vec<Step>,
    /// The program that it becomes, unless a step says which.
    pub guest: Option<RawFd>,
    /// The descriptors that steps name, now or later; they must stay open until the child is born. Of
    /// the others it keeps none: they may be anything that this process has open at that moment.
    pub keep: Vec<RawFd>,
    /// The cgroup it is born in, where the kernel can do that.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Who it is, if that is for us to say.
    pub map: Option<Map>,
}

/// Who a child is, inside and outside.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The user and group that it sees itself as.
    pub inside: u32,
    /// The user and group of the host.
    pub outside: u32,
    /// Of the descriptors that it keeps, the one that is not readable before all this is said.
    pub orders: RawFd,
}

/// Who bears a child.
#[derive(Debug)]
pub enum By {
    /// A midwife, who makes its network beside us: it is there sooner.
    Midwife(Midwife),
    /// Nobody, and it makes its network itself: that takes less work, which counts where many are born
    /// at once.
    Nobody {
        /// Whose network that is.
        network: Network,
        /// A descriptor that is readable when it may begin, if it is to wait; open until then.
        when: Option<RawFd>,
    },
}

/// A child that is being born. Dropping it ends that.
#[derive(Debug)]
pub struct Expected(Stage);

#[derive(Debug)]
enum Stage {
    // Dropped in this order: she waits for the child, which runs on what it shares with us.
    Awaited { midwife: Midwife, shared: Box<Shared> },
    Here { newborn: Newborn },
}

/// A step that the kernel refused.
#[derive(Debug)]
pub struct StepFailed {
    /// What was to be done.
    pub action: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl Embryo<'_> {
    /// Has the child born.
    pub fn expect(self, by: By) -> io::Result<Expected> {
        match by {
            By::Midwife(midwife) => self.expect_of(midwife),
            By::Nobody { network, when } => self.bear(Alone { network, when }),
        }
    }

    fn expect_of(self, midwife: Midwife) -> io::Result<Expected> {
        let Self { map, cgroup, .. } = self;
        map.map_or(Ok(()), |map| write_map(midwife.pid(), map))?;
        let shared = Box::new(Shared::of(self, midwife.parent().as_raw_fd(), None));
        midwife.deliver(Unborn {
            cgroup: cgroup.map(|it| it.try_clone_to_owned()).transpose()?,
            stack: Stack::new()?,
            body: grow,
            context: (&raw const *shared).expose_provenance(),
            runs: AtomicI32::new(1),
        })?;
        Ok(Expected(Stage::Awaited { midwife, shared }))
    }

    fn bear(self, alone: Alone) -> io::Result<Expected> {
        let Self { map, cgroup, .. } = self;
        // The child has a copy.
        let parent = orphan::parent_to_be()?;
        let shared = Box::new(Shared::of(self, parent.as_raw_fd(), Some(alone)));
        let (stack, told) = (Stack::new()?, Told::nothing());
        let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWUTS | libc::CLONE_NEWPID;
        let leaves = Some(&shared.runs);
        let cradle = Cradle { flags, cgroup, leaves, stack: &stack, told: &told };
        let context = (&raw const *shared).cast();
        // SAFETY: `shared` is boxed and outlives the child on this memory like its stack, because
        // `Newborn` waits for the child before it lets go of them; `grow` allocates nothing.
        unsafe { clone(&cradle, grow, context) }?;
        let child = told.take().ok_or(Errno::CHILD)?;
        let pid = child.pid;
        let memory = Memory { shared, ground: Ground::Own { _stack: stack } };
        let newborn = Newborn::of(child, None, memory);
        map.map_or(Ok(()), |map| write_map(pid, map))?;
        Ok(Expected(Stage::Here { newborn }))
    }
}

/// Says who `process`, the first in its user namespace, is inside and outside.
fn write_map(process: Pid, Map { inside, outside, .. }: Map) -> io::Result<()> {
    let process = process.as_raw_nonzero();
    let line = map_line(inside, outside);
    std::fs::write(format!("/proc/{process}/uid_map"), line.to_bytes())?;
    std::fs::write(format!("/proc/{process}/gid_map"), line.to_bytes())
}

impl Expected {
    /// Gives the child its next list. It looks at it only when it is told to: the last step of the
    /// list before waits for that.
    pub fn instruct(&self, steps: Vec<Step>) -> io::Result<()> {
        let shared = match &self.0 {
            Stage::Awaited { shared, .. } => Some(&**shared),
            Stage::Here { newborn } => newborn.shared(),
        };
        let next = shared.and_then(|it| it.more.iter().find(|it| it.get().is_none()));
        let next = next.ok_or_else(|| io::Error::other("it has all its lists already"))?;
        next.set(steps).map_err(|_| io::Error::other("it has this list already"))
    }

    /// Waits until the child is there.
    pub fn born(self) -> Result<Newborn, StepFailed> {
        let (mut midwife, shared) = match self.0 {
            Stage::Awaited { midwife, shared } => (midwife, shared),
            Stage::Here { newborn } => return Ok(newborn),
        };
        let child = midwife
            .await_birth()
            .map_err(|it| StepFailed { action: it.action.to_owned(), source: it.source })?;
        let network = midwife.network();
        let memory = Memory { shared, ground: Ground::Midwife(midwife) };
        Ok(Newborn::of(child, network, memory))
    }
}

/// A line for `uid_map` or `gid_map`: `inside` is `outside`.
pub fn map_line(inside: u32, outside: u32) -> CString {
    CString::new(format!("{inside} {outside} 1")).unwrap_or_default()
}
