//! Performs one step. Runs in a child that shares its parent's memory: see [`crate`].

use std::{
    ffi::CStr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, symlinkat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
        fsmount, fsopen, mount, mount_change, move_mount, unmount,
    },
    process::{chdir, pivot_root, setsid},
};

use super::{Groups, Kind, Step};
use crate::{
    mounts::{Attributes, detached, restrict, restrict_alone},
    sys,
    walls::{drop_bounding, lock_securebits},
};

/// Performs `step`, or says what the kernel said.
pub(crate) fn apply(step: &Step) -> Result<(), Errno> {
    match step {
        Step::Session => session(),
        Step::Tasks { file } => write_all(borrow(*file), b"0"),
        Step::Await { pipe } => await_byte(borrow(*pipe)),
        Step::MapSelf { uid, gid } => map_self(uid, gid),
        Step::Become { id, groups } => become_user(*id, *groups),
        Step::Private => {
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        }
        Step::Base { options } => base(options),
        Step::Dir { path, mode } => make_dir(path, *mode),
        Step::File { path, content } => make_file(path, content),
        Step::Link { path, to } => {
            let (parent, name) = parent_of(path)?;
            symlinkat(to.as_c_str(), parent.as_fd(), name)
        }
        Step::Bind { source, expect, target, attributes } => {
            let tree = detached(source, *expect)?;
            restrict(tree.as_fd(), *attributes)?;
            attach(tree.as_fd(), target)
        }
        Step::Attach { tree, target } => attach(borrow(*tree), target),
        Step::Overlay { lower, upper, work, target } => overlay([lower, upper, work], target),
        Step::Mount { kind, target } => kernel_mount(*kind, target),
        Step::Hostname(name) => rustix::system::sethostname(name.to_bytes()),
        Step::Loopback => loopback_up(),
        Step::Seal { target } => {
            let at = open_below(target, OFlags::PATH | OFlags::DIRECTORY)?;
            restrict_alone(at.as_fd(), Attributes::ReadOnly)
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

fn write_all(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(file, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn await_byte(pipe: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::io::read(pipe, &mut [0; 1])? {
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

fn make_dir(path: &CStr, mode: u32) -> Result<(), Errno> {
    let done = if path.to_bytes().contains(&b'/') {
        let (parent, name) = parent_of(path)?;
        mkdirat(parent.as_fd(), name, Mode::from(mode))
    } else {
        mkdirat(CWD, path, Mode::from(mode))
    };
    match done {
        // There already; that it is a directory is checked, because a link would lead elsewhere.
        Err(Errno::EXIST) => open_below(path, OFlags::PATH | OFlags::DIRECTORY).map(drop),
        done => done,
    }
}

fn make_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let (parent, name) = parent_of(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::from(0o644))?;
    write_all(file.as_fd(), content)
}

fn attach(tree: BorrowedFd<'_>, target: &CStr) -> Result<(), Errno> {
    let target = open_below(target, OFlags::PATH)?;
    let flags =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", target.as_fd(), c"", flags)
}

fn overlay([lower, upper, work]: [&CStr; 3], target: &CStr) -> Result<(), Errno> {
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

fn kernel_mount(kind: Kind, target: &CStr) -> Result<(), Errno> {
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

fn finish(context: &OwnedFd, target: &CStr, attributes: MountAttrFlags) -> Result<(), Errno> {
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
