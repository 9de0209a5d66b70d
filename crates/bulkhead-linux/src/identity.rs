//! Who a sandbox is on the host.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::Path,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid},
};

use crate::{
    clone::{Child, Cradle, Stack, Told, clone},
    orphan, sys,
};

/// The host user ids that sandboxes of root live under, away from every person and service.
const FIRST: u32 = 200_000;
const COUNT: u32 = 60_000;

/// A user id of the host that belongs to one sandbox.
///
/// # Guarantees
/// No other sandbox of this host has it while this value lives. The claim is a lock on one byte of
/// a file, so it ends with its process, however that ends.
#[derive(Debug)]
pub struct Claim {
    /// The id, for user and group alike.
    pub id: u32,
    _lock: File,
}

impl Claim {
    /// Claims an id, trying first the one that `seed` leads to.
    pub fn take(file: &Path, seed: u32) -> io::Result<Self> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .open(file)?;
        for step in 0..COUNT {
            let at = seed.wrapping_add(step) % COUNT;
            if lock_byte(&lock, at)? {
                return Ok(Self { id: FIRST + at, _lock: lock });
            }
        }
        Err(io::Error::other("every user id of sandboxes is taken"))
    }
}

/// Whether the byte at `at` was free and is ours now.
fn lock_byte(file: &File, at: u32) -> io::Result<bool> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at.into(),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: `lock` is a whole `flock`, and the descriptor is open.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if answer == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Who opens files through a mount whose owners are translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opener {
    /// Those who the owners are translated to.
    #[default]
    Themselves,
    /// Root, who gives what it makes to them afterwards, as the file server of gVisor does.
    Root,
}

/// Whom files belong to for the moment until root has given them away.
const NOBODY: [u32; 2] = [65534, 65533];

/// A user namespace in which `inside` is `outside`, for owners and groups, and nobody else exists,
/// but for root if it opens the files: that one is nobody inside.
///
/// It serves to translate the owners of a mount, or to be entered by whoever copies files as that
/// user; no process lives in it.
#[derive(Debug)]
pub struct Translation {
    namespace: OwnedFd,
    _maker: Maker,
}

/// The process with which a namespace came into the world.
///
/// Dropping it waits for its end: until then it runs on this memory.
#[derive(Debug)]
struct Maker {
    pid: Pid,
    pidfd: OwnedFd,
    _stack: Stack,
    _parent: Box<OwnedFd>,
}

impl Translation {
    /// Makes the namespace.
    pub fn make(inside: (u32, u32), outside: u32, opener: Opener) -> io::Result<Self> {
        let map = |inside: u32| {
            let root = match opener {
                Opener::Themselves => None,
                Opener::Root => NOBODY.into_iter().find(|it| *it != inside),
            };
            let root = root.map(|nobody| format!("\n{nobody} 0 1")).unwrap_or_default();
            format!("{inside} {outside} 1{root}")
        };
        let parent = Box::new(orphan::parent_to_be()?);
        let context: *const OwnedFd = &raw const *parent;
        let (stack, told) = (Stack::new()?, Told::nothing());
        let flags = libc::CLONE_NEWUSER;
        let cradle = Cradle { flags, cgroup: None, leaves: None, stack: &stack, told: &told };
        // SAFETY: `parent` is boxed and outlives the child like its stack, because `Maker` waits for
        // the child before it frees them; `pause` allocates nothing and never returns.
        unsafe { clone(&cradle, pause, context) }?;
        let Child { pid, pidfd } = told.take().ok_or(Errno::CHILD)?;
        let maker = Maker { pid, pidfd, _stack: stack, _parent: parent };
        let pid = pid.as_raw_nonzero();
        std::fs::write(format!("/proc/{pid}/uid_map"), map(inside.0))?;
        std::fs::write(format!("/proc/{pid}/gid_map"), map(inside.1))?;
        let namespace = namespace_of(maker.pid)?;
        // It has time to end while the namespace is used.
        maker.kill();
        Ok(Self { namespace, _maker: maker })
    }

    /// The namespace.
    pub fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }
}

/// The user namespace of `process`.
pub fn namespace_of(process: Pid) -> io::Result<OwnedFd> {
    let process = process.as_raw_nonzero();
    Ok(File::open(format!("/proc/{process}/ns/user"))?.into())
}

impl Maker {
    fn kill(&self) {
        // Fails only for one that is gone, which is what we want.
        pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.kill();
        waitpid(Some(self.pid), WaitOptions::empty()).map(drop).unwrap_or_default();
    }
}

extern "C" fn pause(parent: *const OwnedFd) -> ! {
    // SAFETY: the parent keeps it until this child is gone.
    orphan::await_end(unsafe { &*parent }.as_fd());
    sys::exit(0)
}
