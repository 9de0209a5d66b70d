//! Mounts by file descriptor: what is mounted is what was looked at.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    thread,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, StatxFlags, statx},
    io::Errno,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
    thread::{ThreadNameSpaceType, move_into_thread_name_spaces},
};

use crate::sys;

const IDMAP: u64 = 0x0010_0000;
const RDONLY: u64 = 0x0000_0001;
const NOSUID: u64 = 0x0000_0002;
const NODEV: u64 = 0x0000_0004;
const NOEXEC: u64 = 0x0000_0008;

/// What may be done through a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Read and run; no set-user-id, no devices.
    ReadOnly,
    /// Read, write and run; no set-user-id, no devices.
    ReadWrite,
    /// Read, write and run, also where the mount that holds it is read-only.
    Reopened,
    /// Read only; nothing in it can be run.
    Inert,
    /// As the source has it: for device nodes.
    Device,
}

impl Attributes {
    fn bits(self) -> u64 {
        match self {
            Self::ReadOnly => RDONLY | NOSUID | NODEV,
            Self::ReadWrite | Self::Reopened => NOSUID | NODEV,
            Self::Inert => RDONLY | NOSUID | NODEV | NOEXEC,
            Self::Device => NOSUID | NOEXEC,
        }
    }
}

/// Which file is meant, whatever its path says later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The filesystem.
    pub device: (u32, u32),
    /// The number on it.
    pub number: u64,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Which file.
    pub inode: Inode,
    /// What kind of file.
    pub kind: FileType,
    /// Whose it is.
    pub owner: (u32, u32),
}

/// Looks at what `path` leads to, without following a last symbolic link.
pub fn look(path: &CStr) -> io::Result<Looked> {
    Ok(looked(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn looked(dir: BorrowedFd<'_>, path: &CStr, flags: AtFlags) -> Result<Looked, Errno> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID | StatxFlags::GID;
    let stat = statx(dir, path, flags | AtFlags::STATX_DONT_SYNC, wanted)?;
    let device = (stat.stx_dev_major, stat.stx_dev_minor);
    Ok(Looked {
        inode: Inode { device, number: stat.stx_ino },
        kind: FileType::from_raw_mode(stat.stx_mode.into()),
        owner: (stat.stx_uid, stat.stx_gid),
    })
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// A copy of a tree with all that is mounted in it.
const COPY: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// A copy of the tree that `top` leads to, mounted nowhere.
pub(crate) fn detached_of(top: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    open_tree(top, c"", COPY | OpenTreeFlags::AT_EMPTY_PATH)
}

/// A copy of the tree at `path` that is mounted nowhere, if it is still `expect`.
pub(crate) fn detached(path: &CStr, expect: Option<Inode>) -> Result<OwnedFd, Errno> {
    let tree = open_tree(CWD, path, COPY | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    if let Some(expect) = expect
        && looked(tree.as_fd(), c"", AtFlags::EMPTY_PATH)?.inode != expect
    {
        // Somebody swapped it after we looked (CVE-2018-15664).
        return Err(Errno::STALE);
    }
    Ok(tree)
}

/// Restricts a detached tree, and everything mounted in it.
pub(crate) fn restrict(tree: BorrowedFd<'_>, attributes: Attributes) -> Result<(), Errno> {
    set(tree, attributes, None, libc::AT_RECURSIVE)
}

/// Restricts the one mount that `tree` is the root of; what is mounted in it stays as it is.
pub(crate) fn restrict_alone(
    tree: BorrowedFd<'_>,
    attributes: Attributes,
) -> Result<(), Errno> {
    set(tree, attributes, None, 0)
}

fn set(
    tree: BorrowedFd<'_>,
    attributes: Attributes,
    owners: Option<BorrowedFd<'_>>,
    depth: i32,
) -> Result<(), Errno> {
    let clear = if attributes == Attributes::Reopened { RDONLY } else { 0 };
    let set = attributes.bits();
    let mut attr = MountAttr { set, clear, propagation: libc::MS_PRIVATE, userns: 0 };
    if let Some(owners) = owners {
        attr.set |= IDMAP;
        attr.userns = u64::from(owners.as_raw_fd().unsigned_abs());
    }
    let flags = libc::AT_EMPTY_PATH | depth;
    let args = [
        tree.as_raw_fd().unsigned_abs() as usize,
        sys::address(c""),
        flags.unsigned_abs() as usize,
        (&raw const attr).addr(),
        size_of::<MountAttr>(),
    ];
    // SAFETY: `attr` is a whole `mount_attr` of the size passed, and the path is a C string.
    unsafe { sys::call(libc::SYS_mount_setattr, args) }.map(drop)
}

/// Shows the file `path` at `target` among the mounts of `process`, to be read only: for a sandbox
/// that somebody else has built. Needs to be root where those mounts were made.
///
/// A thread goes there and ends there, so that nothing else of this process is ever inside.
pub fn show_in(process: BorrowedFd<'_>, path: &CStr, target: &CStr) -> io::Result<()> {
    let tree = detached(path, None)?;
    restrict(tree.as_fd(), Attributes::Inert)?;
    let inside = || {
        let flags = libc::CLONE_FS.unsigned_abs() as usize;
        // SAFETY: unshare takes one number; from here on this thread has a root of its own, which
        // the kernel asks of whoever goes elsewhere.
        unsafe { sys::call(libc::SYS_unshare, [flags, 0, 0, 0, 0]) }?;
        move_into_thread_name_spaces(process, ThreadNameSpaceType::MOUNT)?;
        move_mount(&tree, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, inside)?;
        let ended = thread.join();
        Ok(ended.map_err(|_| io::Error::other("the thread among its mounts has failed"))??)
    })
}

/// A copy of the tree at `path`, restricted; to be mounted by a child with
/// [`crate::steps::Step::Attach`].
pub fn restricted(path: &CStr, attributes: Attributes) -> io::Result<OwnedFd> {
    let tree = detached(path, None)?;
    restrict(tree.as_fd(), attributes)?;
    Ok(tree)
}

/// A copy of the tree at `path`, if it is still `expect`, in which owners are translated by the
/// user namespace `owners`; to be mounted by a child with [`crate::steps::Step::Attach`].
pub fn translated(
    path: &CStr,
    expect: Inode,
    attributes: Attributes,
    owners: &OwnedFd,
) -> io::Result<OwnedFd> {
    let tree = detached(path, Some(expect))?;
    set(tree.as_fd(), attributes, Some(owners.as_fd()), libc::AT_RECURSIVE)?;
    Ok(tree)
}
