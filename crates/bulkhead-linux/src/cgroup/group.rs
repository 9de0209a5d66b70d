//! The cgroup of one sandbox, over all hierarchies in which it has a directory.
//!
//! Invariant: as long as a [`Cgroup`] lives, its directories exist and are locked by us; when it
//! is dropped, its processes are dead and its directories are gone, or free for a sweep.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::dir::{self, Claim, Dir};
use super::error::CgroupError;
use super::limits::{Limits, Usage};
use super::parse::Controller;
use super::{Cgroups, Feature, kill, v1, v2};

/// How long processes may take to die or to stand still. Killing a thousand takes 0.1 s, on a
/// host that is overloaded or emulated some seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a directory is tried to be removed: v1 lets go of dead processes late.
const REMOVALS: u32 = 7;

/// What a new process needs to start inside the cgroup.
///
/// A child has copies of these descriptors, and with them of the lock, until it executes a
/// program: one that does not would keep a dead cgroup from being swept.
#[derive(Debug)]
pub struct Entry<'a> {
    /// For `CLONE_INTO_CGROUP`.
    pub v2: Option<BorrowedFd<'a>>,
    /// Into each of these the child writes `0` while it has one thread only.
    ///
    /// That takes some µs, while writing a pid to `cgroup.procs` waits for an RCU grace period
    /// of several ms.
    pub tasks: Vec<BorrowedFd<'a>>,
}

/// Whether the processes of a cgroup are to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frozen {
    Yes,
    No,
}

/// The cgroup of one sandbox.
///
/// # Guarantees
/// Dropping it kills every process in it and removes it. What cannot be removed within about five
/// seconds is left, unlocked, to [`Cgroups::sweep`].
#[derive(Debug)]
pub struct Cgroup {
    id: String,
    v2: Option<v2::Group>,
    v1: Vec<v1::Group>,
    /// Where a v1 freezer would be. Its directory is made at the first use.
    freezer_tree: Option<v1::Tree>,
    freezer: Mutex<Option<v1::Group>>,
}

impl Cgroup {
    pub(super) fn begin(cgroups: &Cgroups, id: &str) -> Result<Cgroup, CgroupError> {
        if !dir::is_id(id) {
            return Err(CgroupError::Name(id.to_owned()));
        }
        let mut group = Cgroup::nowhere(cgroups, id);
        if let Some(tree) = &cgroups.v2 {
            group.v2 = Some(v2::Group::create(tree, id)?);
        }
        Ok(group)
    }

    /// Makes what [`Cgroups::begin`] has left out, with all of these limits or not at all.
    pub fn complete(
        mut self,
        cgroups: &Cgroups,
        limits: &Limits,
    ) -> Result<Cgroup, CgroupError> {
        // Whatever fails below, dropping the unfinished one removes what is there.
        for tree in &cgroups.legacy().trees {
            self.v1.push(v1::Group::create(tree, &self.id)?);
        }
        self.set(limits)?;
        Ok(self)
    }

    /// Takes over what a dead supervisor left under this id; `None` if any of it is held, or if
    /// there is nothing.
    pub(super) fn claim(
        cgroups: &Cgroups,
        searches: &[v1::Search<'_>],
        id: &str,
    ) -> Option<Cgroup> {
        // First all locks, then the object: dropping that would end what somebody else holds a
        // part of.
        let v2 = match &cgroups.v2 {
            Some(tree) => claimed(&tree.slots.path(id)).ok()?.map(|dir| (tree, dir)),
            None => None,
        };
        let mut v1 = Vec::new();
        for search in searches {
            v1.extend(claimed(&search.find(id)).ok()?.map(|dir| (search.tree, dir)));
        }
        if v2.is_none() && v1.is_empty() {
            return None;
        }
        let mut group = Cgroup::nowhere(cgroups, id);
        group.v2 = v2.map(|(tree, dir)| v2::Group::of(tree, dir));
        for (tree, dir) in v1 {
            let one = v1::Group::of(tree, dir).ok()?;
            if one.has(Controller::Freezer) {
                group.freezer = Mutex::new(Some(one));
            } else {
                group.v1.push(one);
            }
        }
        Some(group)
    }

    fn nowhere(cgroups: &Cgroups, id: &str) -> Cgroup {
        // Every v2 cgroup can be frozen.
        let legacy = cgroups.v2.is_none().then(|| cgroups.legacy());
        let freezer_tree = legacy.and_then(|it| it.freezer.clone());
        Cgroup {
            id: id.to_owned(),
            v2: None,
            v1: Vec::new(),
            freezer_tree,
            freezer: Mutex::new(None),
        }
    }

    /// The id that it was created with.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How a new process gets in.
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            v2: self.v2.as_ref().map(|it| it.dir.as_fd()),
            tasks: self.v1.iter().map(v1::Group::tasks).collect(),
        }
    }

    /// Changes the limits that are given; those that are `None` stay as they are.
    ///
    /// Memory that is used already is not taken back: v1 refuses a lower limit then, v2 kills
    /// until it fits.
    pub fn set(&self, limits: &Limits) -> Result<(), CgroupError> {
        if let Some(bytes) = limits.memory {
            match self.holder(Controller::Memory, Feature::Memory)? {
                Holder::V1(it) => it.limit_memory(bytes)?,
                Holder::V2(it) => it.limit_memory(bytes)?,
            }
        }
        if let Some(most) = limits.processes {
            match self.holder(Controller::Pids, Feature::Processes)? {
                Holder::V1(it) => it.limit_processes(most)?,
                Holder::V2(it) => it.limit_processes(most)?,
            }
        }
        if let Some(millis) = limits.cpu_millis {
            match self.holder(Controller::Cpu, Feature::Cpu)? {
                Holder::V1(it) => it.limit_cpu(millis)?,
                Holder::V2(it) => it.limit_cpu(millis)?,
            }
        }
        Ok(())
    }

    fn holder(&self, of: Controller, feature: Feature) -> Result<Holder<'_>, CgroupError> {
        if let Some(v2) = self.v2.as_ref().filter(|it| it.has(of)) {
            return Ok(Holder::V2(v2));
        }
        let v1 = self.v1.iter().find(|it| it.has(of));
        v1.map(Holder::V1).ok_or(CgroupError::Unheld(feature))
    }

    /// What the sandbox has used up to this moment.
    pub fn usage(&self) -> Usage {
        let mut sum = self.v2.as_ref().map(v2::Group::usage).unwrap_or_default();
        for part in self.v1.iter().map(v1::Group::usage) {
            sum.memory = sum.memory.or(part.memory);
            sum.memory_peak = sum.memory_peak.or(part.memory_peak);
            sum.cpu_time = sum.cpu_time.or(part.cpu_time);
            sum.processes_peak = sum.processes_peak.or(part.processes_peak);
            sum.oom_kills += part.oom_kills;
            sum.process_refusals += part.process_refusals;
        }
        sum
    }

    /// The CPU time of all processes, for a watcher that asks often.
    pub fn cpu_time(&self) -> Option<Duration> {
        let v1 = || self.v1.iter().find(|it| it.has(Controller::CpuAccounting));
        match &self.v2 {
            Some(v2) => v2.cpu_time(),
            None => v1().and_then(v1::Group::cpu_time),
        }
    }

    /// Kills every process, also those that are being forked at this moment, stopped or frozen.
    ///
    /// It does not wait for them to be gone: see [`Cgroup::wait_empty`]. Afterwards the cgroup is
    /// of no more use: the CPU limit is off, because a throttled process dies late (under a quota
    /// of half a CPU, a fork bomb took four times longer to end), and forks may be forbidden.
    pub fn kill(&self) -> Result<(), CgroupError> {
        let lifted = self.holder(Controller::Cpu, Feature::Cpu).and_then(|it| match it {
            Holder::V1(it) => it.lift_cpu(),
            Holder::V2(it) => it.lift_cpu(),
        });
        match lifted {
            // A quota that stays makes the end slower, it does not prevent it.
            Ok(()) | Err(_) => {}
        }
        match self.v2.as_ref().map(v2::Group::kill) {
            Some(Ok(())) => Ok(()),
            Some(Err(Errno::NOENT)) | None => self.kill_one_by_one(),
            Some(Err(errno)) => Err(CgroupError::Write {
                path: self.v2.as_ref().map(|it| it.dir.path().into()).unwrap_or_default(),
                value: "1".to_owned(),
                source: errno.into(),
            }),
        }
    }

    /// The way of kernels without `cgroup.kill`: forbid forks, then a signal to each.
    pub(super) fn kill_one_by_one(&self) -> Result<(), CgroupError> {
        let deadline = Instant::now() + PATIENCE;
        let no_forks =
            self.holder(Controller::Pids, Feature::Processes).and_then(|it| match it {
                Holder::V1(it) => it.limit_processes(0),
                Holder::V2(it) => it.limit_processes(0),
            });
        loop {
            // Who stands still cannot fork either. Where there is no freezer, or a process that
            // it cannot stop, the loop has to do.
            match no_forks.as_ref().map_or_else(|_| self.freeze(), |()| Ok(())) {
                Ok(()) | Err(_) => {}
            }
            self.dirs().for_each(|dir| kill::all_in(dir.path()));
            // v1 delivers the signal to a frozen process only when it thaws.
            match self.thaw() {
                Ok(()) | Err(_) => {}
            }
            // All that could be ignored above shows here, if it mattered.
            let soon = (Instant::now() + Duration::from_millis(50)).min(deadline);
            if self.wait_empty(soon) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.stuck());
            }
        }
    }

    /// Sleeps until no process is left, or until the deadline; says whether none is left.
    pub fn wait_empty(&self, deadline: Instant) -> bool {
        match &self.v2 {
            Some(v2) => v2.wait("populated", 0, deadline),
            None => kill::until(deadline, || self.is_empty()),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.v2 {
            Some(v2) => !v2.is_populated(),
            None => self.dirs().all(|dir| dir::processes(dir.path()).is_empty()),
        }
    }

    /// Makes every process stand still, and returns when all of them do.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        let deadline = Instant::now() + PATIENCE;
        if let Some(v2) = &self.v2 {
            v2.set_frozen(Frozen::Yes)?;
            let done = v2.wait("frozen", 1, deadline) || self.is_empty();
            return if done { Ok(()) } else { Err(self.stuck()) };
        }
        let mut freezer = self.freezer.lock().unwrap_or_else(PoisonError::into_inner);
        if freezer.is_none() {
            let tree = self.freezer_tree.as_ref();
            let tree = tree.ok_or(CgroupError::Unheld(Feature::Freeze))?;
            *freezer = Some(v1::Group::create(tree, &self.id)?);
        }
        let freezer = freezer.as_ref().ok_or(CgroupError::Unheld(Feature::Freeze))?;
        // First the state, then the processes: each stops forking as soon as it is moved.
        freezer.set_frozen(Frozen::Yes)?;
        let settled = || -> Result<bool, CgroupError> {
            let inside = dir::processes(freezer.dir.path());
            let mut moved = 0;
            for process in self.v1.iter().flat_map(|it| dir::processes(it.dir.path())) {
                if !inside.contains(&process) {
                    freezer.add(process)?;
                    moved += 1;
                }
            }
            Ok(moved == 0 && freezer.is_frozen()?)
        };
        while !settled()? {
            if Instant::now() >= deadline {
                return Err(self.stuck());
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// Lets the processes go on. Without a `freeze` before it, it does nothing.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        if let Some(v2) = &self.v2 {
            return v2.set_frozen(Frozen::No);
        }
        let freezer = self.freezer.lock().unwrap_or_else(PoisonError::into_inner);
        freezer.as_ref().map_or(Ok(()), |it| it.set_frozen(Frozen::No))
    }

    pub(super) fn dirs(&self) -> impl Iterator<Item = &Dir> {
        self.v1.iter().map(|it| &it.dir).chain(self.v2.iter().map(|it| &it.dir))
    }

    fn stuck(&self) -> CgroupError {
        let path = self.dirs().next().map(|it| it.path().into()).unwrap_or_default();
        CgroupError::Stuck { path }
    }

    /// Kills, waits, removes; says whether nothing is left. A second call does nothing.
    pub(super) fn end(&mut self) -> End {
        // Nobody can act on these two failing, and the removal tells how it ended.
        if !self.is_empty() && self.kill().is_ok() {
            self.wait_empty(Instant::now() + PATIENCE);
        }
        for attempt in 0..REMOVALS {
            if self.remove() {
                return End::Removed;
            }
            self.dirs().for_each(|dir| kill::all_in(dir.path()));
            thread::sleep(Duration::from_micros(250 << attempt));
        }
        End::Left
    }

    /// Removes the directories, that of v2 last because it is the one that can kill. A removed
    /// one is forgotten at once: its path may be somebody else's from then on.
    fn remove(&mut self) -> bool {
        self.v1.retain(|it| it.dir.remove().is_err());
        let freezer = self.freezer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if freezer.as_ref().is_some_and(|it| it.dir.remove().is_ok()) {
            *freezer = None;
        }
        let empty = self.v1.is_empty() && freezer.is_none();
        if empty && self.v2.as_ref().is_some_and(|it| it.dir.remove().is_ok()) {
            self.v2 = None;
        }
        empty && self.v2.is_none()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        match self.end() {
            // The lock goes with the descriptors, so the next sweep takes what is left.
            End::Removed | End::Left => {}
        }
    }
}

/// How the end of a cgroup went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing is left of it.
    Removed,
    /// A directory could not be removed.
    Left,
}

enum Holder<'a> {
    V1(&'a v1::Group),
    V2(&'a v2::Group),
}

/// The directory if it is there and free; an error if somebody holds it.
fn claimed(path: &Path) -> Result<Option<Dir>, Errno> {
    match Dir::claim(path)? {
        Claim::Won(dir) => Ok(Some(dir)),
        Claim::Absent => Ok(None),
        Claim::Held => Err(Errno::WOULDBLOCK),
    }
}
