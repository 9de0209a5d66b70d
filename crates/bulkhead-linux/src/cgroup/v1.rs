//! The legacy hierarchies: one directory per controller, joined by writing `0` to `tasks`.
//!
//! Apart from the rest so that it can go when the last kernel with it has gone.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::dir::{self, Dir, Gauge, Slots, text_of};
use super::error::CgroupError;
use super::group::Frozen;
use super::limits::{PERIOD_MICROS, Usage, quota_micros};
use super::parse::Controller;

/// A hierarchy that we may make cgroups in.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) controllers: Vec<Controller>,
    pub(super) slots: Slots,
    /// The mount point of the hierarchy.
    pub(super) top: PathBuf,
}

impl Tree {
    /// The tree for sandboxes beside us in the cgroup `own`, so that the limits that surround us
    /// hold for them too.
    pub(super) fn at(own: &Path, name: &str, top: &Path) -> Tree {
        Tree { controllers: Vec::new(), slots: Slots::beside(own, name), top: top.to_owned() }
    }

    pub(super) fn with(self, controllers: Vec<Controller>) -> Tree {
        Tree { controllers, ..self }
    }
}

/// Looks for the directories of sandboxes that have ended, in one hierarchy.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) tree: &'a Tree,
    /// Every cgroup of the hierarchy by its name. To walk through it once for each sandbox would
    /// take a host with a thousand of them minutes.
    all: OnceCell<HashMap<OsString, PathBuf>>,
}

impl<'a> Search<'a> {
    pub(super) fn of(tree: &'a Tree) -> Self {
        Self { tree, all: OnceCell::new() }
    }

    /// Where the sandbox `id` has its directory.
    ///
    /// Its supervisor may have been in another cgroup than we are, and in the same one in other
    /// hierarchies. Then all of this one is searched.
    pub(super) fn find(&self, id: &str) -> PathBuf {
        let here = self.tree.slots.path(id);
        if here.exists() {
            return here;
        }
        let all = self.all.get_or_init(|| dir::all_below(&self.tree.top));
        let elsewhere = here.file_name().and_then(|name| all.get(name));
        elsewhere.cloned().unwrap_or(here)
    }
}

/// The directory of one sandbox in one hierarchy.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) dir: Dir,
    controllers: Vec<Controller>,
    tasks: OwnedFd,
    gauges: Gauges,
}

#[derive(Debug)]
struct Gauges {
    memory: Gauge,
    memory_peak: Gauge,
    oom: Gauge,
    processes_peak: Gauge,
    processes_events: Gauge,
    cpu_time: Gauge,
}

impl Group {
    pub(super) fn create(tree: &Tree, id: &str) -> Result<Group, CgroupError> {
        let path = tree.slots.path(id);
        let failed =
            |path: PathBuf, errno: Errno| CgroupError::Make { path, source: errno.into() };
        let dir = Dir::create(&path).map_err(|errno| failed(path.clone(), errno))?;
        Group::of(tree, dir).map_err(|errno| failed(path.join("tasks"), errno))
    }

    /// Takes over a directory whose lock we have.
    pub(super) fn of(tree: &Tree, dir: Dir) -> Result<Group, Errno> {
        let tasks = match dir.open("tasks", OFlags::WRONLY) {
            Ok(tasks) => tasks,
            Err(errno) => {
                dir.remove()?;
                return Err(errno);
            }
        };
        let gauges = Gauges {
            memory: Gauge::new("memory.usage_in_bytes"),
            memory_peak: Gauge::new("memory.max_usage_in_bytes"),
            oom: Gauge::new("memory.oom_control"),
            processes_peak: Gauge::new("pids.peak"),
            processes_events: Gauge::new("pids.events"),
            cpu_time: Gauge::new("cpuacct.usage"),
        };
        Ok(Group { dir, controllers: tree.controllers.clone(), tasks, gauges })
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    pub(super) fn tasks(&self) -> BorrowedFd<'_> {
        self.tasks.as_fd()
    }

    /// Bounds memory and forbids swap.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<(), CgroupError> {
        const MEMORY: &str = "memory.limit_in_bytes";
        const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";
        match self.dir.try_write(MEMORY, &bytes.to_string()) {
            // Memory alone may never exceed memory with swap, so a rise starts with the latter.
            Err(Errno::INVAL) => {
                self.dir.write(WITH_SWAP, bytes)?;
                self.dir.write(MEMORY, bytes)
            }
            Ok(()) if self.dir.has(WITH_SWAP) => self.dir.write(WITH_SWAP, bytes),
            // A kernel that does not count swap can still be told to use none here.
            Ok(()) => self.dir.write("memory.swappiness", 0),
            Err(errno) => Err(CgroupError::Write {
                path: self.dir.path().join(MEMORY),
                value: bytes.to_string(),
                source: errno.into(),
            }),
        }
    }

    pub(super) fn limit_processes(&self, most: u32) -> Result<(), CgroupError> {
        self.dir.write("pids.max", most)
    }

    pub(super) fn limit_cpu(&self, millis: u32) -> Result<(), CgroupError> {
        const QUOTA: &str = "cpu.cfs_quota_us";
        self.dir.write("cpu.cfs_period_us", PERIOD_MICROS)?;
        let quota = quota_micros(millis);
        match self.dir.try_write(QUOTA, &quota.to_string()) {
            Ok(()) => Ok(()),
            // A share larger than that of a cgroup around us is refused, but then it is that
            // tighter one which holds.
            Err(Errno::INVAL) if self.is_held_tighter_above(quota) => Ok(()),
            Err(errno) => Err(CgroupError::Write {
                path: self.dir.path().join(QUOTA),
                value: quota.to_string(),
                source: errno.into(),
            }),
        }
    }

    fn is_held_tighter_above(&self, quota: u64) -> bool {
        let number = |path: &Path| -> Option<u64> { text_of(path).ok()?.trim().parse().ok() };
        self.dir.path().ancestors().skip(1).any(|around| {
            // An unlimited one says -1, which is no `u64`.
            let above = number(&around.join("cpu.cfs_quota_us"));
            let period = number(&around.join("cpu.cfs_period_us"));
            matches!((above, period), (Some(above), Some(period))
                if above.saturating_mul(PERIOD_MICROS) <= quota.saturating_mul(period))
        })
    }

    pub(super) fn lift_cpu(&self) -> Result<(), CgroupError> {
        self.dir.write("cpu.cfs_quota_us", -1)
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.gauges.cpu_time.number(&self.dir).map(Duration::from_nanos)
    }

    /// What this hierarchy has measured; nothing for what it does not measure.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        if self.has(Controller::Memory) {
            usage.memory = self.gauges.memory.number(&self.dir);
            usage.memory_peak = self.gauges.memory_peak.number(&self.dir);
            usage.oom_kills = self.gauges.oom.keyed(&self.dir, "oom_kill").unwrap_or(0);
        }
        if self.has(Controller::Pids) {
            usage.processes_peak = self.gauges.processes_peak.number(&self.dir);
            usage.process_refusals =
                self.gauges.processes_events.keyed(&self.dir, "max").unwrap_or(0);
        }
        if self.has(Controller::CpuAccounting) {
            usage.cpu_time = self.cpu_time();
        }
        usage
    }

    /// Puts the process into this hierarchy. One that has just died needs no place.
    pub(super) fn add(&self, process: rustix::process::Pid) -> Result<(), CgroupError> {
        let number = process.as_raw_nonzero().to_string();
        match self.dir.try_write("cgroup.procs", &number) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(CgroupError::Write {
                path: self.dir.path().join("cgroup.procs"),
                value: number,
                source: errno.into(),
            }),
        }
    }

    /// Asks the freezer for a state; [`Group::is_frozen`] says when it is reached.
    pub(super) fn set_frozen(&self, state: Frozen) -> Result<(), CgroupError> {
        match state {
            Frozen::Yes => self.dir.write("freezer.state", "FROZEN"),
            Frozen::No => self.dir.write("freezer.state", "THAWED"),
        }
    }

    pub(super) fn is_frozen(&self) -> Result<bool, CgroupError> {
        Ok(self.dir.read("freezer.state")?.trim() == "FROZEN")
    }
}
