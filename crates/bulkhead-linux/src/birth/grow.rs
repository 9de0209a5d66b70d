//! What a child does until it becomes the guest.
//!
//! It has its parent's memory, so the rules for such children hold for all of this.

use std::{
    ffi::CStr,
    os::fd::{AsFd as _, BorrowedFd, RawFd},
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicUsize, Ordering},
    },
};

use rustix::io::Errno;

use super::Embryo;
use crate::{
    midwife::Network,
    network, orphan,
    steps::{Step, Trees, apply, out_of_the_way},
    sys,
};

/// What parent and child both see.
#[derive(Debug)]
pub(super) struct Shared {
    /// In the child's table.
    parent: RawFd,
    /// Readable when somebody has said who it is.
    orders: Option<RawFd>,
    /// If nobody bears it.
    alone: Option<Alone>,
    /// 0 when a child that nobody bore has left this memory.
    pub(super) runs: AtomicI32,
    /// In order.
    keep: Vec<RawFd>,
    pub(super) steps: Vec<Step>,
    /// What it does after that, list by list, as the parent finds out what that is.
    pub(super) more: [OnceLock<Vec<Step>>; 2],
    guest: Option<RawFd>,
    arguments: [usize; 2],
    environment: [usize; 1],
    pub(super) at: AtomicUsize,
    pub(super) errno: AtomicI32,
}

/// What a child must know that nobody bears.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    /// What nobody has made for it.
    pub(super) network: Network,
    /// Readable when it may begin.
    pub(super) when: Option<RawFd>,
}

const GUEST: &CStr = c"bulkhead-guest";

/// Positions of what the child does beside its lists.
pub(super) const AT_NAMESPACES: usize = usize::MAX - 1;
const AT_GUEST: usize = usize::MAX;

impl Shared {
    /// For the child of `embryo`, who knows the parent by this descriptor and makes `alone` itself.
    pub(super) fn of(embryo: Embryo<'_>, parent: RawFd, alone: Option<Alone>) -> Self {
        let Embryo { steps, guest, keep, map, cgroup: _ } = embryo;
        let when = alone.and_then(|it| it.when);
        let keep = keep.into_iter().chain(guest).chain([parent]).chain(when);
        let mut keep: Vec<RawFd> = keep.collect();
        keep.sort_unstable();
        Self {
            parent,
            orders: map.map(|it| it.orders),
            alone,
            runs: AtomicI32::new(1),
            keep,
            steps,
            more: [OnceLock::new(), OnceLock::new()],
            guest,
            arguments: [sys::address(GUEST), 0],
            environment: [0],
            at: AtomicUsize::new(0),
            errno: AtomicI32::new(0),
        }
    }
}

/// The child's whole life until it becomes the guest.
pub(super) extern "C" fn grow(shared: *const ()) -> ! {
    // SAFETY: it is what the parent said, and the parent keeps it until this child is gone or has
    // executed the guest.
    let shared = unsafe { &*shared.cast::<Shared>() };
    let errno = match keep_only(&shared.keep).and_then(|()| separate(shared)) {
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

/// Makes its namespaces, as far as nobody has, and waits to hear who it is if others say that.
fn separate(shared: &Shared) -> Result<(), Errno> {
    let mounts = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    let Some(Alone { network, when }) = shared.alone else { return unshare(mounts) };
    when.map_or(Ok(()), |when| await_readable(when, shared))?;
    match network {
        Network::Own => {
            unshare(mounts | libc::CLONE_NEWNET)?;
            network::switch_loopback_on(network::socket()?.as_fd())?;
        }
        Network::Host => unshare(mounts)?,
    }
    shared.orders.map_or(Ok(()), |orders| await_readable(orders, shared))
}

/// Waits until `fd`, which it keeps, is readable, as long as the parent lives.
fn await_readable(fd: RawFd, shared: &Shared) -> Result<(), Errno> {
    // SAFETY: both are open in this table, and nobody closes them meanwhile.
    let [fd, parent] = [fd, shared.parent].map(|it| unsafe { BorrowedFd::borrow_raw(it) });
    orphan::await_readable(fd, parent)
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
