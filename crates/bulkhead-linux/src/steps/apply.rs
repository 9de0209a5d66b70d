//! Performs one step. Runs in a child that shares its parent's memory: see [`crate`].

use std::{
    ffi::CStr,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, symlinkat, unlinkat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
        fsmount, fsopen, mount, mount_change, move_mount, unmount,
    },
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{chdir, pivot_root, setsid},
};

use super::{Groups, Kind, Place, Step, Way};
use crate::{
    doors,
    mounts::{Attributes, detached, restrict, restrict_alone},
    orphan::await_readable,
    routes::own_every_address,
    sys,
    walls::{drop_bounding, lock_securebits},
};

/// The most trees that a parent can send.
const MOST_TREES: usize = 64;

/// The trees that the parent has sent, and the parent itself.
pub(crate) struct Trees {
    parent: RawFd,
    received: [RawFd; MOST_TREES],
    count: usize,
}

impl Trees {
    pub(crate) fn none(parent: RawFd) -> Self {
        Self { parent, received: [-1; MOST_TREES], count: 0 }
    }

    fn get(&self, at: usize) -> Result<BorrowedFd<'_>, Errno> {
        let received = self.received.get(..self.count).ok_or(Errno::BADF)?;
        received.get(at).map(|fd| borrow(*fd)).ok_or(Errno::BADF)
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
        Step::Close { file } => close(*file),
        Step::Tasks { file } => write_all(borrow(*file), b"0"),
        Step::Await { orders } => await_byte(borrow(*orders), borrow(trees.parent)),
        Step::Receive { orders } => trees.receive(borrow(*orders)),
        Step::MapSelf { uid, gid } => map_self(uid, gid),
        Step::Become { id, groups } => become_user(*id, *groups),
        Step::Private => {
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        }
        Step::Base { options } => base(options),
        Step::Dir { path, mode } => make_dir(path, *mode),
        Step::File { path, content } => make_file(path, content),
        Step::Rewrite { path, content } => rewrite(path, content),
        Step::Link { path, to } => at(path, |dir, name| symlinkat(to.as_c_str(), dir, name)),
        Step::Bind { source, expect, target, attributes } => {
            let tree = detached(source, *expect)?;
            restrict(tree.as_fd(), *attributes)?;
            attach(tree.as_fd(), target)
        }
        Step::Attach { tree, target } => attach(trees.get(*tree)?, target),
        Step::Overlay { lower, upper, work, target } => overlay([lower, upper, work], target),
        Step::Mount { kind, target } => kernel_mount(*kind, target),
        Step::Hostname(name) => rustix::system::sethostname(name.to_bytes()),
        Step::OwnNetwork => own_network(),
        Step::Doors { doors, to } => {
            own_every_address().and_then(|()| doors::open(doors, borrow(*to)))
        }
        Step::Seal { target } => {
            let mounted = open_below(target, OFlags::PATH | OFlags::DIRECTORY)?;
            restrict_alone(mounted.as_fd(), Attributes::ReadOnly)
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
    // SAFETY: umask takes one number.
    unsafe { sys::call(libc::SYS_umask, [0; 5]) }.map(drop)
}

fn close(file: RawFd) -> Result<(), Errno> {
    let file = file.unsigned_abs() as usize;
    // SAFETY: the child's table is its own, and nothing in it owns this copy.
    unsafe { sys::call(libc::SYS_close, [file, 0, 0, 0, 0]) }.map(drop)
}

fn write_all(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(file, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn await_byte(orders: BorrowedFd<'_>, parent: BorrowedFd<'_>) -> Result<(), Errno> {
    await_readable(orders, parent)?;
    match rustix::io::read(orders, &mut [0; 1])? {
        0 => Err(Errno::PIPE),
        _ => Ok(()),
    }
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
    mount(c"bulkhead", c"/tmp", c"tmpfs", flags, options)?;
    chdir(c"/tmp")?;
    mkdirat(CWD, c"old", Mode::from(0o700))?;
    pivot_root(c".", c"old")?;
    chdir(c"/")
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
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = at(place, |dir, name| rustix::fs::openat(dir, name, flags, Mode::from(0o644)))?;
    write_all(file.as_fd(), content)
}

fn rewrite(place: &Place, content: &[u8]) -> Result<(), Errno> {
    match at(place, |dir, name| unlinkat(dir, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => make_file(place, content),
        Err(errno) => Err(errno),
    }
}

fn attach(tree: BorrowedFd<'_>, target: &Place) -> Result<(), Errno> {
    let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    match target.way {
        Way::Ours => move_mount(tree, c"", CWD, target.path.as_c_str(), from),
        Way::Foreign => {
            let target = open_below(&target.path, OFlags::PATH)?;
            let flags = from | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(tree, c"", target.as_fd(), c"", flags)
        }
    }
}

fn overlay([lower, upper, work]: [&CStr; 3], target: &Place) -> Result<(), Errno> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"lowerdir", lower)?;
    fsconfig_set_string(context.as_fd(), c"upperdir", upper)?;
    fsconfig_set_string(context.as_fd(), c"workdir", work)?;
    fsconfig_set_flag(context.as_fd(), c"userxattr")?;
    finish(
        &context,
        target,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
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

#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// An empty network, made here and not by the clone: it takes a third of a start, in which the
/// parent does its own part.
fn own_network() -> Result<(), Errno> {
    let flag = libc::CLONE_NEWNET.unsigned_abs() as usize;
    // SAFETY: unshare takes one number.
    unsafe { sys::call(libc::SYS_unshare, [flag, 0, 0, 0, 0]) }?;
    loopback_up()
}

fn loopback_up() -> Result<(), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket =
        socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request =
        InterfaceRequest { name: [0; 16], flags: libc::IFF_UP as _, rest: [0; 22] };
    request.name.get_mut(..2).ok_or(Errno::INVAL)?.copy_from_slice(b"lo");
    let args = [
        socket.as_raw_fd().unsigned_abs() as usize,
        libc::SIOCSIFFLAGS as usize,
        (&raw const request).addr(),
        0,
        0,
    ];
    // SAFETY: `request` is a whole `ifreq` for this ioctl.
    unsafe { sys::call(libc::SYS_ioctl, args) }.map(drop)
}

fn enter() -> Result<(), Errno> {
    chdir(c"new")?;
    // The same place for both: the old root lies on top of the new one and is taken off.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    chdir(c"/")
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
