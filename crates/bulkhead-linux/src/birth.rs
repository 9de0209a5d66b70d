//! The birth of a sandbox: a child with new namespaces applies its steps and becomes the guest.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicUsize, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid},
};

use crate::{
    clone::{Child, Stack},
    midwife::{Midwife, Unborn},
    network,
    offspring::Offspring,
    steps::{Step, Trees, apply, out_of_the_way},
    sys,
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
}

/// A child that is being born by a midwife. Dropping it ends that.
#[derive(Debug)]
pub struct Expected {
    // Dropped in this order: she waits for the child, which runs on what it shares with us.
    midwife: Midwife,
    shared: Box<Shared>,
}

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
struct Memory {
    shared: Box<Shared>,
    /// She is gone, but has its stack.
    midwife: Midwife,
}

/// What parent and child both see.
#[derive(Debug)]
struct Shared {
    /// In the child's table.
    parent: RawFd,
    /// In order.
    keep: Vec<RawFd>,
    steps: Vec<Step>,
    /// What it does after that, list by list, as the parent finds out what that is.
    more: [OnceLock<Vec<Step>>; 2],
    guest: Option<RawFd>,
    arguments: [usize; 2],
    environment: [usize; 1],
    at: AtomicUsize,
    errno: AtomicI32,
}

/// A step that the kernel refused.
#[derive(Debug)]
pub struct StepFailed {
    /// What was to be done.
    pub action: String,
    /// What the kernel said.
    pub source: io::Error,
}

const GUEST: &CStr = c"bulkhead-guest";

/// Positions of what the child does beside its lists.
const AT_NAMESPACES: usize = usize::MAX - 1;
const AT_GUEST: usize = usize::MAX;

impl Embryo<'_> {
    /// Has `midwife` bear the child.
    pub fn expect_of(self, midwife: Midwife) -> io::Result<Expected> {
        let parent = midwife.parent().as_raw_fd();
        let mut keep: Vec<RawFd> =
            self.keep.into_iter().chain(self.guest).chain([parent]).collect();
        keep.sort_unstable();
        let shared = Box::new(Shared {
            parent,
            keep,
            steps: self.steps,
            more: [OnceLock::new(), OnceLock::new()],
            guest: self.guest,
            arguments: [sys::address(GUEST), 0],
            environment: [0],
            at: AtomicUsize::new(0),
            errno: AtomicI32::new(0),
        });
        midwife.deliver(Unborn {
            cgroup: self.cgroup.map(|it| it.try_clone_to_owned()).transpose()?,
            stack: Stack::new()?,
            body: grow,
            context: (&raw const *shared).expose_provenance(),
            runs: AtomicI32::new(1),
        })?;
        Ok(Expected { midwife, shared })
    }
}

impl Expected {
    /// Gives the child its next list. It looks at it only when it is told to: the last step of the
    /// list before waits for that.
    pub fn instruct(&self, steps: Vec<Step>) -> io::Result<()> {
        let next = self.shared.more.iter().find(|it| it.get().is_none());
        let next = next.ok_or_else(|| io::Error::other("it has all its lists already"))?;
        next.set(steps).map_err(|_| io::Error::other("it has this list already"))
    }

    /// Waits until the child is there.
    pub fn born(self) -> Result<Newborn, StepFailed> {
        let Self { mut midwife, shared } = self;
        let Child { pid, pidfd } = midwife
            .await_birth()
            .map_err(|it| StepFailed { action: it.action.to_owned(), source: it.source })?;
        let network = midwife.network();
        let memory = Some(Memory { shared, midwife });
        Ok(Newborn { pidfd, pid, reaped: false, offspring: None, network, memory })
    }
}

/// The child's whole life until it becomes the guest.
extern "C" fn grow(shared: *const ()) -> ! {
    // SAFETY: it is what `expect_of` said, and the parent keeps it until this child is gone or has
    // executed the guest.
    let shared = unsafe { &*shared.cast::<Shared>() };
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    let errno = match keep_only(&shared.keep).and_then(|()| unshare(namespaces)) {
        Err(errno) => {
            shared.at.store(AT_NAMESPACES, Ordering::Relaxed);
            errno
        }
        Ok(()) => match apply_all(shared) {
            Err(errno) => errno,
            Ok(guest) => execute(shared, guest),
        },
    };
    shared.errno.store(errno.raw_os_error(), Ordering::Release);
    sys::exit(125)
}

/// Performs the steps, and returns a descriptor of the guest that they have left alone.
fn apply_all(shared: &Shared) -> Result<RawFd, Errno> {
    let without_guest = |_: &Errno| shared.at.store(AT_GUEST, Ordering::Relaxed);
    let guest = shared.guest.map(out_of_the_way).transpose().inspect_err(without_guest)?;
    let mut trees = Trees::none(shared.parent);
    let mut list = |steps: &[Step]| {
        steps.iter().try_for_each(|step| {
            apply(step, &mut trees)?;
            shared.at.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    list(&shared.steps)?;
    for more in &shared.more {
        list(more.get().map(Vec::as_slice).unwrap_or_default())?;
    }
    // The last of the namespaces: its root is the cgroup that the child is in by now.
    unshare(libc::CLONE_NEWCGROUP)
        .inspect_err(|_| shared.at.store(AT_NAMESPACES, Ordering::Relaxed))?;
    trees.guest().or(guest).ok_or(Errno::NOENT).inspect_err(without_guest)
}

/// Closes all descriptors but these and those of input and output.
fn keep_only(keep: &[RawFd]) -> Result<(), Errno> {
    let mut next = 3;
    for kept in keep.iter().map(|it| it.unsigned_abs() as usize).filter(|it| 3 <= *it) {
        if next < kept {
            close_range(next, kept - 1)?;
        }
        next = kept + 1;
    }
    close_range(next, u32::MAX as usize)
}

fn close_range(first: usize, last: usize) -> Result<(), Errno> {
    // SAFETY: close_range takes three numbers; the table is this child's own, and nobody in it owns
    // what is closed.
    unsafe { sys::call(libc::SYS_close_range, [first, last, 0, 0, 0]) }.map(drop)
}

fn unshare(namespaces: i32) -> Result<(), Errno> {
    let namespaces = namespaces.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [namespaces, 0, 0, 0, 0]) }.map(drop)
}

/// Becomes the guest, or says why not.
fn execute(shared: &Shared, guest: RawFd) -> Errno {
    let args = [
        guest.unsigned_abs() as usize,
        sys::address(c""),
        shared.arguments.as_ptr().addr(),
        shared.environment.as_ptr().addr(),
        libc::AT_EMPTY_PATH.unsigned_abs() as usize,
    ];
    // SAFETY: the arguments are lists of C strings that end with null.
    match unsafe { sys::call(libc::SYS_execveat, args) } {
        Ok(_) => Errno::INVAL,
        Err(errno) => errno,
    }
}

impl Newborn {
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
        let shared = &self.memory.as_ref()?.shared;
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
        let left = |it: &Memory| {
            it.midwife.unborn().is_some_and(|it| it.runs.load(Ordering::Acquire) == 0)
        };
        if self.memory.as_ref().is_some_and(left) {
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

/// A line for `uid_map` or `gid_map`: `inside` is `outside`.
pub fn map_line(inside: u32, outside: u32) -> CString {
    CString::new(format!("{inside} {outside} 1")).unwrap_or_default()
}
