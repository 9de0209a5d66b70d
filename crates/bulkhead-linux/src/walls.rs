//! The inner walls: what a process gives up for itself and all its children.
//!
//! The guest applies them once, before it runs anything, on every backend. They are inherited and
//! cannot be taken down again.

use std::io;

use rustix::{
    io::Errno,
    process::{
        DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
    },
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
        capability_is_in_bounding_set, clear_ambient_capability_set, no_new_privs,
        set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
    },
};
use serde::{Deserialize, Serialize};

use crate::{landlock, seccomp::Filter, sys};

/// What to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walls {
    /// Directories and files that may be changed; everything else can only be read and run.
    pub writable: Vec<Vec<u8>>,
    /// Which system calls remain: compiled, for whoever raises the walls is waited for.
    pub filter: Filter,
    /// Processes and threads of the user namespace; `None` where a cgroup counts them.
    pub processes: Option<u64>,
    /// Open files of one process.
    pub files: Option<u64>,
}

/// A wall that could not be put up.
#[derive(Debug, thiserror::Error)]
#[error("could not {action}")]
pub struct WallFailed {
    /// What was to be done, as a verb.
    pub action: String,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl Walls {
    /// Puts all walls up, and looks whether they stand.
    pub fn raise(&self) -> Result<(), WallFailed> {
        step("hide from the debugger", hide())?;
        step("limit resources", self.limit())?;
        step("forbid new privileges", set_no_new_privs(true).map_err(Into::into))?;
        landlock::restrict(&self.writable)?;
        step("drop capabilities", drop_capabilities())?;
        step("filter system calls", self.filter.install())?;
        step("check the walls", check())
    }

    fn limit(&self) -> io::Result<()> {
        for (resource, to) in [
            (Resource::Core, 0),
            (Resource::Rtprio, 0),
            (Resource::Nice, 0),
            (Resource::Msgqueue, 0),
            (Resource::Memlock, 64 * 1024),
            (Resource::Sigpending, 4096),
        ] {
            match lower(resource, to) {
                // Linux lets everybody lower a limit. A kernel that refuses does not know the
                // resource, so there is nothing to limit: gVisor.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other?,
            }
        }
        if let Some(files) = self.files {
            lower(Resource::Nofile, files)?;
        }
        if let Some(processes) = self.processes {
            lower(Resource::Nproc, processes)?;
        }
        Ok(())
    }
}

fn step(action: &str, done: io::Result<()>) -> Result<(), WallFailed> {
    done.map_err(|source| WallFailed { action: action.to_owned(), source })
}

/// Nobody may attach to the guest or read its memory, environment or descriptors.
fn hide() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Lowers a limit, and never raises it: raising needs a privilege that the caller may lack.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let limit = now.maximum.map_or(to, |maximum| maximum.min(to));
    Ok(setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?)
}

/// Takes every capability out of the set that a program file could draw from.
pub(crate) fn drop_bounding() -> Result<(), Errno> {
    for capability in 0..64 {
        let args = [libc::PR_CAPBSET_DROP.unsigned_abs() as usize, capability, 0, 0, 0];
        // SAFETY: this prctl takes numbers only.
        match unsafe { sys::call(libc::SYS_prctl, args) } {
            Ok(_) => {}
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Forbids, for good, that being or becoming root brings capabilities.
pub(crate) fn lock_securebits() -> Result<(), Errno> {
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )
}

/// Executing the guest has emptied the sets of all but a guest that is root inside; for that one,
/// and to be sure, they are emptied here.
fn drop_capabilities() -> io::Result<()> {
    known(clear_ambient_capability_set())?;
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        drop_bounding()?;
        known(lock_securebits())?;
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

/// A kernel that does not know a set or a bit has nothing in it: gVisor. What counts is checked
/// after all: that the sets which every kernel has are empty, and nothing can be drawn from.
fn known(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

fn check() -> io::Result<()> {
    let sets = capabilities(None)?;
    let held = sets.effective | sets.permitted | sets.inheritable;
    if !held.is_empty() {
        return Err(io::Error::other("capabilities are left"));
    }
    if capability_is_in_bounding_set(CapabilitySet::SYS_ADMIN)? {
        return Err(io::Error::other("capabilities can be had again"));
    }
    if !no_new_privs()? {
        return Err(io::Error::other("new privileges are possible"));
    }
    Ok(())
}
