//! Where a sandbox can write without anybody keeping it.
//!
//! One number holds all of it together. Where we may mount on this host, one sized tmpfs has a
//! directory for each place. Elsewhere the daemon makes a tmpfs for each, and the number is split
//! among them: less flexible, and as tight.

use std::path::{Path, PathBuf};

use bulkhead_policy::Plan;

use super::{Found, Mount};

/// Room for the directories of the sandbox itself, on top of what the plan allows.
const OWN_BYTES: u64 = 1 << 20;
const OWN_INODES: u64 = 512;
/// What a plan without limits still gets: tmpfs alone would take half of the machine.
const MOST_BYTES: u64 = 1 << 40;
const MOST_INODES: u64 = 100_000_000;
const PAGE: u64 = 4096;

/// Who holds the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) enum Disk {
    /// One tmpfs that lies ready, with a directory for each place.
    Laid {
        /// Where the daemon sees it.
        dir: PathBuf,
    },
    /// A tmpfs for each place, made by the daemon.
    Split {
        /// Where the daemon sees the places that are kept, if they are: nobody holds a number there.
        kept: Option<PathBuf>,
    },
}

/// A place that can be written and is thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) struct Private {
    /// Where the sandbox sees it.
    pub(in crate::container) at: PathBuf,
    /// What it is called, where it lies ready and in a copy.
    pub(in crate::container) name: String,
    pub(in crate::container) mode: u32,
    /// Its share, where the number is split.
    weight: u64,
}

impl Private {
    /// Whether it is of the disk, which can be copied and kept: what is in the others ends with the
    /// programs.
    pub(in crate::container) fn is_disk(&self) -> bool {
        !matches!(self.name.as_str(), "run" | "shm")
    }

    /// Where it lies ready.
    pub(in crate::container) fn below(&self) -> PathBuf {
        let dir = if self.is_disk() { DISK } else { "" };
        Path::new(dir).join(&self.name)
    }
}

/// Where the places of the disk lie ready.
pub(in crate::container) const DISK: &str = "disk";

/// A tmpfs of the daemon's making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) struct Tmpfs {
    pub(in crate::container) at: PathBuf,
    pub(in crate::container) bytes: u64,
    pub(in crate::container) inodes: u64,
    pub(in crate::container) mode: u32,
}

/// Every such place of the sandbox.
pub(in crate::container) fn private(plan: &Plan, found: &Found) -> Vec<Private> {
    let place = |at: &Path, name: &str, mode: u32, weight: u64| Private {
        at: at.to_owned(),
        name: name.to_owned(),
        mode,
        weight,
    };
    let mut places = vec![
        place("/tmp".as_ref(), "tmp", 0o1777, 6),
        place(plan.home().as_path(), "home", 0o700, 6),
        place("/var/tmp".as_ref(), "vartmp", 0o1777, 1),
        place("/run".as_ref(), "run", 0o755, 1),
        place("/dev/shm".as_ref(), "shm", 0o1777, 2),
    ];
    for (at, path) in plan.tmpfs().iter().enumerate() {
        places.push(place(path.as_path(), &format!("tmpfs{at}"), 0o1777, 6));
    }
    for (at, path) in found.image.volumes.iter().enumerate() {
        let taken = places.iter().any(|it| it.at == *path)
            || found.shares.iter().any(|it| it.to == *path);
        if !taken {
            places.push(place(path, &format!("volume{at}"), 0o1777, 1));
        }
    }
    places
}

/// Bytes and inodes of the one tmpfs that holds everything.
pub(in crate::container) fn whole(plan: &Plan) -> (u64, u64) {
    let limits = plan.limits();
    let bytes = limits.disk.map_or(MOST_BYTES, |it| it.0).saturating_add(OWN_BYTES);
    (bytes, limits.inodes.unwrap_or(MOST_INODES).saturating_add(OWN_INODES))
}

/// The places, where they lie ready below `dir`.
pub(super) fn laid(plan: &Plan, found: &Found, dir: &Path) -> Vec<Mount> {
    let shown = private(plan, found).into_iter();
    shown.map(|it| Mount::read_write(dir.join(it.below()), &it.at)).collect()
}

/// The places of the disk, where they are kept below `dir`.
pub(super) fn kept(plan: &Plan, found: &Found, dir: &Path) -> Vec<Mount> {
    let places = private(plan, found).into_iter().filter(Private::is_disk);
    places.map(|it| Mount::read_write(dir.join(it.name), &it.at)).collect()
}

/// The places, each with its part of the number.
pub(super) fn split(plan: &Plan, found: &Found) -> Vec<Tmpfs> {
    let limits = plan.limits();
    let bytes = limits.disk.map_or(MOST_BYTES, |it| it.0);
    let inodes = limits.inodes.unwrap_or(MOST_INODES);
    let places = private(plan, found);
    let all: u64 = places.iter().map(|it| it.weight).sum::<u64>().max(1);
    let part = |it: Private| Tmpfs {
        // The kernel rounds up to whole pages, and takes none at all for no limit.
        bytes: ((bytes / all).saturating_mul(it.weight) / PAGE * PAGE).max(PAGE),
        // One more for its own root.
        inodes: (inodes / all).saturating_mul(it.weight).max(1) + 1,
        mode: it.mode,
        at: it.at,
    };
    places.into_iter().map(part).collect()
}
