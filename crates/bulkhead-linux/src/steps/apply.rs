//! Performs one step. Runs in a child that shares its parent's memory: see [`crate`].

use std::{
    ffi::{CStr, CString},
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd},
};

use rustix::{
    fs::{
        Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, accessat, mkdirat, mknodat,
        openat2, symlinkat, unlinkat,
    },
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
        fsmount, fsopen, mount, mount_bind_recursive, mount_change, mount_remount, move_mount,
        unmount,
    },
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{chdir, pivot_root, setsid},
};

use super::{Groups, Kind, Place, Reach, Step, Way};
use crate::{
    doors,
    mounts::{Attributes, Inode, detached, detached_of, restrict, restrict_alone},
    orphan::await_readable,
    routes::own_every_address,
    sys,
    walls::{drop_bounding, lock_securebits},
};

/// The most descriptors that a parent can send.
const MOST_TREES: usize = 80;

/// Where the base lies until the new root is entered: on the one directory of every host from which
/// nothing is ever shown.
const BASE: &CStr = c"/proc";

/// The trees and other descriptors that the parent has sent, and the parent itself.
pub(crate) struct Trees {
    parent: RawFd,
    /// The program that the child becomes, if a step has said so.
    guest: Option<RawFd>,
    received: [RawFd; MOST_TREES],
    count: usize,
}

impl Trees {
    pub(crate) fn none(parent: RawFd) -> Self {
        Self { parent, guest: None, received: [-1; MOST_TREES], count: 0 }
    }

    /// The program that a step has found.
    pub(crate) fn guest(&self) -> Option<RawFd> {
        self.guest
    }

    fn find_guest(&mut self, source: &CStr, expect: Inode) -> Result<(), Errno> {
        const GUEST: &CStr = c"guest";
        mknodat(CWD, GUEST, FileType::RegularFile, Mode::from(0o644), 0)?;
        let tree = detached(source, Some(expect))?;
        restrict(tree.as_fd(), Attributes::ReadOnly)?;
        let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, c"", CWD, GUEST, from)?;
        let found = rustix::fs::open(GUEST, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.guest = Some(out_of_the_way(found.as_raw_fd())?);
        Ok(())
    }

    fn get(&self, at: usize) -> Result<BorrowedFd<'_>, Errno> {
        let received = self.received.get(..self.count).ok_or(Errno::BADF)?;
        received.get(at).map(|fd| borrow(*fd)).ok_or(Errno::BADF)
    }

    /// Waits for the parent's byte and enters the cgroups whose `tasks` files come with it.
    fn join(&mut self, orders: BorrowedFd<'_>) -> Result<(), Errno> {
        let before = self.count;
        self.receive(orders)?;
        (before..self.count).try_for_each(|file| write_all(self.get(file)?, b"0"))
    }

    /// Waits for the parent's byte and takes the trees that come with it.
    fn receive(&mut self, orders: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_TREES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0; 1];
        let mut slices = [IoSliceMut::new(&mut byte)];
        await_readable(orders, borrow(self.parent))?;
        let got = recvmsg(orders, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if got.bytes == 0 {
            return Err(Errno::PIPE);
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(trees) = message {
                for tree in trees {
                    *self.received.get_mut(self.count).ok_or(Errno::MFILE)? =
                        tree.into_raw_fd();
                    self.count += 1;
                }
            }
        }
        Ok(())
    }
}

/// Performs `step`, or says what the kernel said.
pub(crate) fn apply(step: &Step, trees: &mut Trees) -> Result<(), Errno> {
    match step {
        Step::Session => session(),
        Step::Join { orders } => trees.join(borrow(*orders)),
        Step::Receive { orders } => trees.receive(borrow(*orders)),
        Step::MapSelf { uid, gid } => map_self(uid, gid),
        Step::Become { id, groups } => become_user(*id, *groups),
        Step::Private => {
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        }
        Step::Base { options } => base(options),
        Step::Resize { options } => {
            mount_remount(c".", MountFlags::NOSUID | MountFlags::NODEV, options)
        }
        Step::Dir { path, mode } => make_dir(path, *mode),
        Step::File { path, content } => make_file(path, content),
        Step::Rewrite { path, content } => rewrite(path, content),
        Step::Link { path, to } => at(path, |dir, name| symlinkat(to.as_c_str(), dir, name)),
        Step::Bind { source, expect, target, attributes } => {
            let tree = detached(source, *expect)?;
            restrict(tree.as_fd(), *attributes)?;
            attach(tree.as_fd(), target)
        }
        Step::Hold { target, attributes } => hold(&target.path, *attributes),
        Step::Again { source, target } => again(source, target),
        Step::Cover { source, target } => cover(source, target),
        Step::Guest { source, expect } => trees.find_guest(source, *expect),
        Step::Attach { tree, target } => attach(trees.get(*tree)?, target),
        Step::Overlay { lower, upper, work, target } => overlay(lower, [upper, work], target),
        Step::Mount { kind, target } => kernel_mount(*kind, target),
        Step::Hostname(name) => rustix::system::sethostname(name.to_bytes()),
        Step::Doors { doors, to } => {
            own_every_address().and_then(|()| doors::open(doors, borrow(*to)))
        }
        Step::Hand { to } => {
            let base = rustix::fs::open(
                c".",
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            doors::hand(&[base.as_fd()], borrow(*to))
        }
        Step::Restrict { target, attributes, reach } => {
            let mounted = open_below(target, OFlags::PATH | OFlags::DIRECTORY)?;
            match reach {
                Reach::Alone => restrict_alone(mounted.as_fd(), *attributes),
                Reach::All => restrict(mounted.as_fd(), *attributes),
            }
        }
        Step::Enter => enter(),
        Step::Capabilities => drop_bounding().and_then(|()| lock_securebits()),
        Step::Descriptors { control } => descriptors(*control),
    }
}

/// A descriptor that the parent keeps open for this child.
fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: descriptors in steps are open when the child is cloned, and its table is its own.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A session of our own, in which the modes of steps are taken as they are.
fn session() -> Result<(), Errno> {
    setsid()?;
    ordinary_priority()?;
    // SAFETY: umask takes one number.
    unsafe { sys::call(libc::SYS_umask, [0; 5]) }.map(drop)
}

/// Real-time priority is not passed on: no share of the processors bounds it, and the kernel lets
/// nobody who has it into a v1 cgroup of the `cpu` controller.
fn ordinary_priority() -> Result<(), Errno> {
    // SAFETY: sched_getscheduler takes one number; 0 is this process.
    let policy = unsafe { sys::call(libc::SYS_sched_getscheduler, [0; 5]) }?;
    let policy = i32::try_from(policy).unwrap_or_default() & !libc::SCHED_RESET_ON_FORK;
    if !matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE) {
        return Ok(());
    }
    let priority: libc::c_int = 0;
    let args = [0, libc::SCHED_OTHER as usize, (&raw const priority).addr(), 0, 0];
    // SAFETY: `priority` is a whole kernel `sched_param`.
    unsafe { sys::call(libc::SYS_sched_setscheduler, args) }.map(drop)
}

fn write_all(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(file, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn write_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // A map is taken whole or not at all.
    rustix::io::write(file, content).map(drop)
}

fn map_self(uid: &CStr, gid: &CStr) -> Result<(), Errno> {
    // Without this the kernel refuses a group map from an ordinary user (CVE-2014-8989).
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/uid_map", uid.to_bytes())?;
    write_file(c"/proc/self/gid_map", gid.to_bytes())
}

fn become_user(id: u32, groups: Groups) -> Result<(), Errno> {
    let id = id as usize;
    match groups {
        // SAFETY: an empty list needs no pointer.
        Groups::Left => unsafe { sys::call(libc::SYS_setgroups, [0; 5]) }.map(drop)?,
        Groups::Kept => {}
    }
    // SAFETY: both calls take three numbers.
    unsafe { sys::call(libc::SYS_setresgid, [id, id, id, 0, 0]) }?;
    // SAFETY: as above.
    unsafe { sys::call(libc::SYS_setresuid, [id, id, id, 0, 0]) }.map(drop)
}

fn base(options: &CStr) -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"bulkhead", BASE, c"tmpfs", flags, options)?;
    chdir(BASE)
}

/// Opens `path` below the base; a symbolic link on the way is an error, not a way.
fn open_below(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// The directory that holds `path`, and the last part of `path`.
fn parent_of(path: &CStr) -> Result<(OwnedFd, &CStr), Errno> {
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|it| *it == b'/').ok_or(Errno::INVAL)?;
    let name = bytes.get(slash + 1..).ok_or(Errno::INVAL)?;
    let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
    // The parent's path on our own stack: there is no heap here.
    let mut parent = [0_u8; 4096];
    let head = bytes.get(..slash).ok_or(Errno::INVAL)?;
    parent.get_mut(..slash).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(head);
    let parent = CStr::from_bytes_until_nul(&parent).map_err(|_| Errno::NAMETOOLONG)?;
    Ok((open_below(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
}

/// Does `what` with the directory that holds `place` and its name there.
fn at<T>(
    place: &Place,
    what: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    match place.way {
        Way::Ours => what(CWD, &place.path),
        // Directly in the base, which is ours.
        Way::Foreign if !place.path.to_bytes().contains(&b'/') => what(CWD, &place.path),
        Way::Foreign => {
            let (parent, name) = parent_of(&place.path)?;
            what(parent.as_fd(), name)
        }
    }
}

fn make_dir(place: &Place, mode: u32) -> Result<(), Errno> {
    match at(place, |dir, name| mkdirat(dir, name, Mode::from(mode))) {
        // There already; that it is a directory is checked, because a link would lead elsewhere.
        Err(Errno::EXIST) => {
            open_below(&place.path, OFlags::PATH | OFlags::DIRECTORY).map(drop)
        }
        done => done,
    }
}

fn make_file(place: &Place, content: &[u8]) -> Result<(), Errno> {
    let mode = Mode::from(0o644);
    // One call instead of two, for something to mount on.
    let placed =
        |dir: BorrowedFd<'_>, name: &CStr| mknodat(dir, name, FileType::RegularFile, mode, 0);
    if content.is_empty() && at(place, placed) == Ok(()) {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = at(place, |dir, name| rustix::fs::openat(dir, name, flags, mode))?;
    write_all(file.as_fd(), content)
}

fn rewrite(place: &Place, content: &[u8]) -> Result<(), Errno> {
    match at(place, |dir, name| unlinkat(dir, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => make_file(place, content),
        Err(errno) => Err(errno),
    }
}

/// One call where the way there is known, for there are dozens of these.
fn again(source: &CStr, target: &Place) -> Result<(), Errno> {
    match target.way {
        Way::Ours => mount_bind_recursive(source, target.path.as_c_str()),
        Way::Foreign => attach(detached(source, None)?.as_fd(), target),
    }
}

fn cover(source: &CStr, target: &Place) -> Result<(), Errno> {
    match again(source, target) {
        // One of the two is not there, and it must be the target.
        Err(Errno::NOENT) => accessat(CWD, source, Access::EXISTS, AtFlags::empty()),
        done => done,
    }
}

fn attach(tree: BorrowedFd<'_>, target: &Place) -> Result<(), Errno> {
    let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    match target.way {
        Way::Ours => move_mount(tree, c"", CWD, target.path.as_c_str(), from),
        Way::Foreign => attach_to(tree, open_below(&target.path, OFlags::PATH)?.as_fd()),
    }
}

fn attach_to(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let [from, to] =
        [MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH, MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH];
    move_mount(tree, c"", target, c"", from | to)
}

/// What is held is what it is held on, however long somebody takes to swap the path.
fn hold(path: &CStr, attributes: Attributes) -> Result<(), Errno> {
    let here = open_below(path, OFlags::PATH)?;
    let tree = detached_of(here.as_fd())?;
    restrict(tree.as_fd(), attributes)?;
    attach_to(tree.as_fd(), here.as_fd())
}

fn overlay(lower: &[CString], [upper, work]: [&CStr; 2], target: &Place) -> Result<(), Errno> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    match lower {
        [only] => fsconfig_set_string(context.as_fd(), c"lowerdir", only.as_c_str())?,
        several => {
            for dir in several {
                match fsconfig_set_string(context.as_fd(), c"lowerdir+", dir.as_c_str()) {
                    // Linux before 6.5.
                    Err(Errno::INVAL) => return stacked(several, [upper, work], target),
                    done => done?,
                }
            }
        }
    }
    fsconfig_set_string(context.as_fd(), c"upperdir", upper)?;
    fsconfig_set_string(context.as_fd(), c"workdir", work)?;
    fsconfig_set_flag(context.as_fd(), c"userxattr")?;
    finish(
        &context,
        target,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

/// An overlay by the older call, which takes all directories in one text of a page.
fn stacked(lower: &[CString], [upper, work]: [&CStr; 2], target: &Place) -> Result<(), Errno> {
    // On our own stack: there is no heap here.
    let mut page = [0_u8; 4096];
    let mut length = 0;
    let mut add = |bytes: &[u8]| {
        let room = page.get_mut(length..length + bytes.len()).ok_or(Errno::TOOBIG)?;
        room.copy_from_slice(bytes);
        length += bytes.len();
        Ok::<(), Errno>(())
    };
    add(b"userxattr,upperdir=")?;
    add(upper.to_bytes())?;
    add(b",workdir=")?;
    add(work.to_bytes())?;
    for (at, dir) in lower.iter().enumerate() {
        add(if at == 0 { b",lowerdir=" } else { b":" })?;
        add(dir.to_bytes())?;
    }
    add(b"\0")?;
    let options = CStr::from_bytes_until_nul(&page).map_err(|_| Errno::TOOBIG)?;
    // It takes a path, so only one without foreign links will do; the root is such a one.
    if target.way != Way::Ours {
        return Err(Errno::NOSYS);
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"overlay", target.path.as_c_str(), c"overlay", flags, options)
}

fn kernel_mount(kind: Kind, target: &Place) -> Result<(), Errno> {
    let closed = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    match kind {
        Kind::Proc => {
            let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
            finish(&context, target, closed | MountAttrFlags::MOUNT_ATTR_NODEV)
        }
        Kind::Pts => {
            let context = fsopen(c"devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(context.as_fd(), c"ptmxmode", c"0666")?;
            fsconfig_set_string(context.as_fd(), c"mode", c"0620")?;
            finish(&context, target, closed)
        }
    }
}

fn finish(context: &OwnedFd, target: &Place, attributes: MountAttrFlags) -> Result<(), Errno> {
    fsconfig_create(context.as_fd())?;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    attach(mounted.as_fd(), target)
}

fn enter() -> Result<(), Errno> {
    chdir(c"new")?;
    // The same place for both: the old root lies on top of the new one and is taken off.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    chdir(c"/")
}

/// A copy of the descriptor, which is not where the last step puts the control stream.
pub(crate) fn out_of_the_way(fd: RawFd) -> Result<RawFd, Errno> {
    let (fd, copy) =
        (fd.unsigned_abs() as usize, libc::F_DUPFD_CLOEXEC.unsigned_abs() as usize);
    // SAFETY: fcntl F_DUPFD_CLOEXEC takes three numbers.
    let copy = unsafe { sys::call(libc::SYS_fcntl, [fd, copy, 4, 0, 0]) }?;
    i32::try_from(copy).map_err(|_| Errno::BADF)
}

fn descriptors(control: RawFd) -> Result<(), Errno> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for target in [0, 1, 2] {
        let from = null.as_raw_fd().unsigned_abs() as usize;
        // SAFETY: dup3 takes three numbers.
        unsafe { sys::call(libc::SYS_dup3, [from, target, 0, 0, 0]) }?;
    }
    // Before the control stream takes its place: this may be descriptor 3, and would close it.
    drop(null);
    if control == 3 {
        // SAFETY: fcntl F_SETFD takes three numbers.
        unsafe { sys::call(libc::SYS_fcntl, [3, libc::F_SETFD as usize, 0, 0, 0]) }?;
    } else {
        let control = control.unsigned_abs() as usize;
        // SAFETY: dup3 takes three numbers.
        unsafe { sys::call(libc::SYS_dup3, [control, 3, 0, 0, 0]) }?;
    }
    let flags = libc::CLOSE_RANGE_CLOEXEC as usize;
    // SAFETY: close_range takes three numbers.
    unsafe { sys::call(libc::SYS_close_range, [4, u32::MAX as usize, flags, 0, 0]) }.map(drop)
}
