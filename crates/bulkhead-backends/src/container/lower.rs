//! From a plan to the body of one container. Pure: snapshot-tested without a daemon.
//!
//! Nothing of a caller's reaches the daemon in words of its own: there is no option, capability,
//! device or namespace that a plan could ask for by name.

mod body;
mod disk;
mod mounts;

use std::path::{Path, PathBuf};

use bulkhead_guest::protocol::{Expected, Furnish};
use bulkhead_linux::{mounts::Inode, seccomp::filter, walls::Walls};
use bulkhead_policy::{NOTES_DIR, Plan};
use bulkhead_spec::{self as spec, Access, Caught, Limits};

pub(super) use self::{
    body::Body,
    disk::{DISK, Disk, Private, private, whole},
    mounts::{Mount, Reach},
};
use super::{Kernel, plate::MACHINE, seccomp};
use crate::{
    BackendError,
    syscalls::profile,
    workspace::{protect::Protection, share::Share},
};

/// Where the guest is inside.
pub(super) const GUEST_AT: &str = "/.bulkhead/guest";

/// What was found out before: everything that is not in the plan.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The sandbox.
    pub(super) id: String,
    /// Whose it is, for whoever sweeps.
    pub(super) instance: String,
    pub(super) image: Image,
    pub(super) user: User,
    /// The runtime that was asked for.
    pub(super) runtime: Option<String>,
    /// Whose kernel serves its programs.
    pub(super) kernel: Kernel,
    /// What leads to the gateway.
    pub(super) caught: Caught,
    pub(super) disk: Disk,
    /// What is shared, as the daemon reaches it; outer directories first.
    pub(super) shares: Vec<Shown>,
    /// What must stay as it is within them.
    pub(super) protections: Vec<Protection>,
    /// The directory with the guest and what is shown in the place of other things, as the daemon
    /// sees it.
    pub(super) props: PathBuf,
    /// The directory with the lists of users and groups, as the daemon sees it.
    pub(super) names: PathBuf,
    /// The directory with what tells the machine from others, if it is to be told.
    pub(super) plate: Option<PathBuf>,
}

/// An image, by what it is and not by what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// Its digest.
    pub(super) id: String,
    /// Where it wants volumes; the daemon would make unbounded ones.
    pub(super) volumes: Vec<PathBuf>,
}

impl Image {
    /// A name for what is kept about it.
    pub(super) fn file_name(&self) -> String {
        self.id.replace([':', '/'], "-")
    }
}

/// Who programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) namespace: Users,
}

/// Whose numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// The daemon's usual ones.
    Usual,
    /// The host's, though the daemon usually translates them.
    Hosts,
    /// Those of the user whose daemon it is; nobody else's.
    Kept,
    /// The guest's own: the daemon's root stands for the user whose daemon it is, and programs are
    /// [`INSIDE`].
    Apart,
}

/// Who programs are in a namespace of the guest's making.
pub(super) const INSIDE: u32 = 1000;

impl User {
    /// The user and group that programs see themselves as.
    pub(super) fn inside(self) -> (u32, u32) {
        match self.namespace {
            Users::Usual | Users::Hosts | Users::Kept => (self.uid, self.gid),
            Users::Apart => (INSIDE, INSIDE),
        }
    }
}

/// One thing that is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Where the daemon finds it.
    pub(super) source: PathBuf,
    /// Where the sandbox sees it.
    pub(super) to: PathBuf,
    pub(super) access: Access,
    /// Which file it is, where the guest can tell: a daemon mounts whatever its path leads to.
    pub(super) inode: Option<Inode>,
}

impl From<&Share> for Shown {
    fn from(share: &Share) -> Self {
        Self {
            source: share.from.clone(),
            to: share.to.clone(),
            access: share.access,
            inode: None,
        }
    }
}

/// The body of the container of `plan`.
pub(super) fn lower(plan: &Plan, found: &Found) -> Result<Body, BackendError> {
    let seccomp = seccomp::document(profile(plan), found.user.namespace).map_err(|error| {
        BackendError::Build {
            action: "write the list of system calls".to_owned(),
            source: error.into(),
            hint: None,
        }
    })?;
    let Limits { memory, cpus, pids, files, .. } = *plan.limits();
    let mut mounts = vec![
        Mount::read_only(found.props.join("guest"), GUEST_AT),
        Mount::read_only(found.names.join("passwd"), "/etc/passwd"),
        Mount::read_only(found.names.join("group"), "/etc/group"),
    ];
    let plate = found.plate.iter().map(|dir| dir.join(MACHINE));
    mounts.extend(plate.map(|it| Mount::read_only(it, "/etc/machine-id")));
    let mut tmpfs = Vec::new();
    match &found.disk {
        Disk::Laid { dir } => mounts.extend(disk::laid(plan, found, dir)),
        Disk::Split { kept } => {
            tmpfs = disk::split(plan, found);
            mounts.extend(kept.iter().flat_map(|dir| disk::kept(plan, found, dir)));
        }
    }
    mounts.extend(mounts::shares(found));
    mounts.extend(mounts::protections(found));
    let mounts = mounts::uncovered(mounts);
    tmpfs.retain(|place| mounts.iter().all(|it| it.target != place.at));
    Ok(Body {
        image: found.image.id.clone(),
        labels: labels(&found.instance, &found.id),
        host: plan.nameplate().map_or_else(|| "bulkhead".to_owned(), |it| it.host.clone()),
        user: found.user,
        runtime: found.runtime.clone(),
        network: plan.network(),
        caught: found.caught,
        seccomp,
        mounts,
        tmpfs,
        memory: memory.map(|it| it.0),
        cpu_millis: cpus.map(spec::Cpus::millis),
        processes: pids.map(|it| it.saturating_add(overhead(found.kernel))),
        files,
    })
}

/// Processes and threads that the daemon counts and that are none of the program's: the guest, and
/// what a runtime with a kernel of its own needs for itself.
pub(super) fn overhead(kernel: Kernel) -> u32 {
    match kernel {
        Kernel::Hosts => 1,
        Kernel::UserSpace | Kernel::Own => 512,
    }
}

/// The labels by which a sweep knows its own.
pub(super) fn labels(instance: &str, id: &str) -> [(&'static str, String); 2] {
    [(INSTANCE, instance.to_owned()), (SANDBOX, id.to_owned())]
}

/// The label that says whose a container is.
pub(super) const INSTANCE: &str = "dev.bulkhead.instance";
/// The label that says which sandbox it is.
pub(super) const SANDBOX: &str = "dev.bulkhead.sandbox";

/// What the guest is told about its private directories, where we could not fill them ourselves.
pub(super) fn furnish(plan: &Plan, found: &Found) -> Option<Furnish> {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let home = plan.home_files().iter().map(|(name, content)| {
        let path = plan.home().as_path().join(name);
        (bytes(&path), content.as_bytes().to_vec())
    });
    let notes = plan
        .notes()
        .iter()
        .map(|(name, content)| (bytes(&Path::new(NOTES_DIR).join(name)), content.clone()));
    match &found.disk {
        Disk::Laid { .. } => None,
        Disk::Split { .. } => Some(Furnish {
            scratch: private(plan, found).iter().map(|it| bytes(&it.at)).collect(),
            // Where somebody has been before, they are there, or were changed or removed.
            files: home.filter(|_| !plan.disk().is_used()).chain(notes).collect(),
            expected: expected(found),
        }),
    }
}

/// What the guest must find in the place of each share that nothing is laid over.
fn expected(found: &Found) -> Vec<Expected> {
    let covered = |it: &&Shown| found.protections.iter().any(|over| over.path == it.to);
    let shares = found.shares.iter().filter(|it| !covered(it));
    let expected = shares.filter_map(|it| {
        let Inode { device, number } = it.inode?;
        Some(Expected { at: it.to.as_os_str().as_encoded_bytes().to_vec(), device, number })
    });
    expected.collect()
}

/// What the guest gives up on top of what the daemon took.
pub(super) fn walls(plan: &Plan, found: &Found) -> Walls {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let mut writable: Vec<Vec<u8>> = vec![b"/proc".to_vec()];
    writable.extend(private(plan, found).iter().map(|it| bytes(&it.at)));
    let shares = found.shares.iter().filter(|it| it.access != Access::ReadOnly);
    writable.extend(shares.map(|it| bytes(&it.to)));
    Walls {
        writable,
        filter: filter(profile(plan)),
        processes: None,
        files: plan.limits().files.map(u64::from),
    }
}

#[cfg(test)]
mod tests;
