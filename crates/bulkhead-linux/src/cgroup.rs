//! Limits that hold for a whole sandbox, and the way to end all of it at once.
//!
//! [`Cgroups`] is what this host lets us do, [`Cgroup`] the cgroup of one sandbox. Both kinds of
//! hierarchy are served, also mixed: v2 alone, v1 alone, or v1 controllers beside a v2 tree
//! without any, which still kills and counts CPU time.
//!
//! A sandbox is placed so that the limits around us hold for it too: in v1 beside us in our own
//! cgroup, as `bulkhead-<id>`; in v2 as `bulkhead/<id>` in the nearest cgroup above us that can
//! hand controllers down, because one with processes cannot. The empty `bulkhead` stays there.
//!
//! Invariant: there is no list of cgroups anywhere. Who lives holds the lock of the directory;
//! [`Cgroups::sweep`] removes those whose lock is free. (A lock is not seen from another cgroup
//! namespace with a mount of its own; such a one has another place for its sandboxes, too.)

mod dir;
mod error;
mod group;
mod kill;
mod limits;
mod parse;
mod place;
mod systemd;
mod usual;
mod v1;
mod v2;
mod watched;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use self::error::CgroupError;
pub use self::group::{Cgroup, Entry};
pub use self::limits::{Limits, Usage};
pub use self::watched::Watched;

use self::group::End;
use self::parse::{Controller, Hierarchy, Mount};

/// What our cgroups are called.
const NAME: &str = "bulkhead";

/// Something that a cgroup can do for a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Bound its memory.
    Memory,
    /// Bound its share of the CPUs.
    Cpu,
    /// Bound the number of its processes.
    Processes,
    /// Count its CPU time.
    CpuTime,
    /// Let all its processes stand still.
    Freeze,
    /// Kill all its processes in one step.
    Kill,
}

impl fmt::Display for Feature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Feature::Memory => "a limit on memory",
            Feature::Cpu => "a limit on CPU",
            Feature::Processes => "a limit on processes",
            Feature::CpuTime => "a count of CPU time",
            Feature::Freeze => "a freezer",
            Feature::Kill => "`cgroup.kill`",
        })
    }
}

/// The two kinds of hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// What is mounted on this host, whether we may use it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// No cgroups are to be seen.
    Absent,
    /// Only v1 hierarchies.
    V1,
    /// Only the unified hierarchy.
    V2,
    /// v1 hierarchies and the unified one beside them.
    Hybrid,
}

impl Layout {
    fn of(mounts: &[Mount]) -> Layout {
        let v2 = mounts.iter().any(|it| it.hierarchy == Hierarchy::V2);
        let v1 = mounts.iter().any(|it| it.hierarchy != Hierarchy::V2);
        match (v1, v2) {
            (false, false) => Layout::Absent,
            (true, false) => Layout::V1,
            (false, true) => Layout::V2,
            (true, true) => Layout::Hybrid,
        }
    }
}

/// How we come to the controllers of v2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delegation {
    /// We have all there are to have.
    Held,
    /// Our own cgroup has them and nobody else is in it: [`Cgroups::acquire`] moves us into a
    /// leaf below it, so that it can hand them down.
    StepAside,
    /// The service manager of our user can give us a cgroup that has them:
    /// [`Cgroups::acquire`] asks for it.
    AskSystemd,
    /// There are none for us.
    #[default]
    None,
}

/// The cgroups in which we may make those of sandboxes.
#[derive(Clone, Debug)]
pub struct Cgroups {
    name: String,
    /// The cgroups that we are in, as the kernel lists them.
    own: String,
    /// Where the unified hierarchy is mounted.
    unified: Option<Mount>,
    v2: Option<v2::Tree>,
    delegation: Delegation,
    /// The controllers that v2 would have after `acquire`.
    reach: Vec<Controller>,
    /// Looked at when somebody asks, which is after a first process was born: only v2 has a say in
    /// that.
    legacy: OnceLock<Legacy>,
}

/// What v1 has that v2 has not.
#[derive(Clone, Debug)]
struct Legacy {
    layout: Layout,
    trees: Vec<v1::Tree>,
    freezer: Option<v1::Tree>,
}

impl Cgroups {
    /// Looks at what this process may use at this moment. It changes nothing.
    pub fn probe() -> Cgroups {
        place::probe(NAME)
    }

    /// Gets what [`Delegation`] says is to be had, and looks again.
    ///
    /// `bus` is the socket of the session bus, `$XDG_RUNTIME_DIR/bus`. Where there is nothing to
    /// get, this returns what is held already.
    ///
    /// # Guarantees
    /// Takes no longer than about four seconds. It may move this process into another cgroup,
    /// never another process.
    pub fn acquire(self, bus: Option<&Path>) -> io::Result<Cgroups> {
        match self.delegation {
            Delegation::Held | Delegation::None => return Ok(self),
            Delegation::StepAside => {}
            Delegation::AskSystemd => {
                let bus = bus.ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "there is no session bus to ask")
                })?;
                systemd::request_scope(bus)?;
            }
        }
        step_aside()?;
        Ok(place::probe(&self.name))
    }

    /// What is mounted here.
    pub fn layout(&self) -> Layout {
        self.legacy().layout
    }

    fn legacy(&self) -> &Legacy {
        self.legacy.get_or_init(|| place::legacy(self))
    }

    /// How the controllers of v2 are had.
    pub fn delegation(&self) -> Delegation {
        self.delegation
    }

    /// Which hierarchy does it for the sandboxes that we create now, if any does.
    pub fn holds(&self, feature: Feature) -> Option<Version> {
        let limit = |it: Controller| {
            let v2 = self.v2.as_ref().is_some_and(|tree| tree.controllers.contains(&it));
            let v1 = || self.legacy().trees.iter().any(|tree| tree.controllers.contains(&it));
            if v2 { Some(Version::V2) } else { v1().then_some(Version::V1) }
        };
        let v2 = self.v2.is_some().then_some(Version::V2);
        match feature {
            Feature::Memory => limit(Controller::Memory),
            Feature::Cpu => limit(Controller::Cpu),
            Feature::Processes => limit(Controller::Pids),
            Feature::CpuTime => v2.or_else(|| limit(Controller::CpuAccounting)),
            Feature::Freeze => {
                v2.or_else(|| self.legacy().freezer.is_some().then_some(Version::V1))
            }
            Feature::Kill => v2.filter(|_| kernel_has_kill()),
        }
    }

    /// Whether sandboxes have it after a successful [`Cgroups::acquire`].
    pub fn within_reach(&self, feature: Feature) -> bool {
        let reach = match feature {
            Feature::Memory => self.reach.contains(&Controller::Memory),
            Feature::Cpu => self.reach.contains(&Controller::Cpu),
            Feature::Processes => self.reach.contains(&Controller::Pids),
            Feature::CpuTime | Feature::Freeze => !self.reach.is_empty(),
            Feature::Kill => !self.reach.is_empty() && kernel_has_kill(),
        };
        reach || self.holds(feature).is_some()
    }

    /// Makes the cgroup of a sandbox, with all of these limits or not at all.
    ///
    /// It has a directory in every hierarchy that holds anything, whether that is limited or
    /// not, so that [`Cgroup::set`] can do it later.
    pub fn create(&self, id: &str, limits: &Limits) -> Result<Cgroup, CgroupError> {
        self.begin(id)?.complete(self, limits)
    }

    /// Makes only that part of the cgroup of a sandbox in which its first process must be born, and
    /// no limits: for whoever has that process before it knows the limits.
    ///
    /// [`Cgroup::complete`] makes the rest.
    pub fn begin(&self, id: &str) -> Result<Cgroup, CgroupError> {
        Cgroup::begin(self, id)
    }

    /// Kills and removes what supervisors that are dead have left; returns the ids.
    ///
    /// # Guarantees
    /// Nothing of a living supervisor is touched, whatever it is doing at the moment. Any number
    /// of processes may sweep at the same time.
    pub fn sweep(&self) -> Vec<String> {
        let mut swept = self.sweep_own();
        swept.extend(self.sibling_scopes().iter().flat_map(Cgroups::sweep_own));
        swept
    }

    fn sweep_own(&self) -> Vec<String> {
        let v1 = self.legacy().trees.iter().chain(&self.legacy().freezer);
        let searches: Vec<v1::Search<'_>> = v1.map(v1::Search::of).collect();
        let slots = searches.iter().map(|it| &it.tree.slots);
        let slots = slots.chain(self.v2.iter().map(|it| &it.slots));
        let ids: BTreeSet<String> = slots.flat_map(dir::Slots::ids).collect();
        let claim = |id: &String| Cgroup::claim(self, &searches, id);
        let removed = |id: &String| claim(id).is_some_and(|mut it| it.end() == End::Removed);
        ids.into_iter().filter(removed).collect()
    }

    /// Those below another v2 cgroup, and none of v1.
    fn only(&self, v2: v2::Tree) -> Cgroups {
        let none = Legacy { layout: self.layout(), trees: Vec::new(), freezer: None };
        Cgroups { v2: Some(v2), legacy: OnceLock::from(none), ..self.clone() }
    }

    /// The other scopes that were asked of systemd: each has its own sandboxes.
    fn sibling_scopes(&self) -> Vec<Cgroups> {
        let Some(base) = self.v2.as_ref().map(|it| it.base.as_path()) else {
            return Vec::new();
        };
        let (Some(slice), true) = (base.parent(), systemd::is_scope(base)) else {
            return Vec::new();
        };
        dir::children(slice)
            .into_iter()
            .map(|it| slice.join(it))
            .filter(|it| it != base && systemd::is_scope(it))
            .map(|it| {
                let controllers =
                    self.v2.iter().flat_map(|it| it.controllers.clone()).collect();
                self.only(v2::Tree::at(&it, &self.name, controllers))
            })
            .collect()
    }
}

/// Moves this process into a leaf below its own cgroup.
fn step_aside() -> io::Result<()> {
    let leaf = own_v2_cgroup()?.join("supervisor");
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")
}

/// The directory of the v2 cgroup that we are in.
fn own_v2_cgroup() -> io::Result<PathBuf> {
    let mountinfo = fs::read("/proc/self/mountinfo")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    parse::mounts(&String::from_utf8_lossy(&mountinfo))
        .iter()
        .find(|it| it.hierarchy == Hierarchy::V2)
        .and_then(|it| Some(it.place_of(parse::own(&own, &Hierarchy::V2)?)))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup v2 is mounted"))
}

/// `cgroup.kill` came with Linux 5.14. The root has no such file to look for.
fn kernel_has_kill() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}
