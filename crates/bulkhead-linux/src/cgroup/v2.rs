//! The unified hierarchy: with controllers, or without any beside v1 ones, where it still counts
//! CPU time and ends all processes at once.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::dir::{Dir, Gauge, Slots, keyed, text_of};
use super::error::CgroupError;
use super::group::Frozen;
use super::limits::{PERIOD_MICROS, Usage, quota_micros};
use super::parse::Controller;

/// The kernel gives notice of `cgroup.events` once in so long. What is waited for mostly takes less, so
/// until then we look ourselves.
const LONG: Duration = Duration::from_millis(10);

/// The cgroup in which we may make others, and what it can give to them.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// The cgroup that hands its controllers down.
    pub(super) base: PathBuf,
    pub(super) controllers: Vec<Controller>,
    pub(super) slots: Slots,
}

impl Tree {
    /// The tree for sandboxes below `base`.
    ///
    /// With controllers they have a parent of their own: as long as that hands a controller down,
    /// nobody else who manages `base`, such as systemd, can take it away.
    pub(super) fn at(base: &Path, name: &str, controllers: Vec<Controller>) -> Tree {
        let slots = if controllers.is_empty() {
            Slots::beside(base, name)
        } else {
            Slots::below(base, name)
        };
        Tree { base: base.to_owned(), controllers, slots }
    }

    fn is_enabled(&self) -> bool {
        self.controllers.is_empty()
            || given_by(self.slots.parent())
                .is_ok_and(|given| self.controllers.iter().all(|it| given.contains(it)))
    }

    /// Makes the controllers available to the sandboxes.
    fn enable(&self) -> Result<(), CgroupError> {
        hand_down(&self.base, &self.controllers)?;
        let parent = self.slots.parent();
        match rustix::fs::mkdir(parent, rustix::fs::Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(CgroupError::Make { path: parent.into(), source: errno.into() });
            }
        }
        hand_down(parent, &self.controllers)
    }
}

/// Gives the controllers of `cgroup` to its children, as far as they do not have them.
pub(super) fn hand_down(cgroup: &Path, controllers: &[Controller]) -> Result<(), CgroupError> {
    let path = cgroup.join("cgroup.subtree_control");
    let given = given_by(cgroup);
    let given = given
        .map_err(|errno| CgroupError::Read { path: path.clone(), source: errno.into() })?;
    let missing: Vec<_> = controllers
        .iter()
        .filter(|it| !given.contains(it))
        .map(|it| format!("+{}", it.name()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let value = missing.join(" ");
    fs::write(&path, &value).map_err(|source| CgroupError::Write { path, value, source })
}

/// The controllers that the children of `cgroup` have.
fn given_by(cgroup: &Path) -> Result<Vec<Controller>, Errno> {
    text_of(&cgroup.join("cgroup.subtree_control")).map(|it| Controller::listed(&it, ' '))
}

/// The directory of one sandbox.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) dir: Dir,
    controllers: Vec<Controller>,
    gauges: Gauges,
}

#[derive(Debug)]
struct Gauges {
    events: Gauge,
    memory: Gauge,
    memory_peak: Gauge,
    memory_events: Gauge,
    processes_peak: Gauge,
    processes_events: Gauge,
    cpu: Gauge,
}

impl Group {
    pub(super) fn create(tree: &Tree, id: &str) -> Result<Group, CgroupError> {
        // Before the directory is made, not after: one that exists while another enables the
        // controllers gets their files one after the other, one that is made has them all.
        if !tree.is_enabled() {
            tree.enable()?;
        }
        let path = tree.slots.path(id);
        match Dir::create(&path) {
            Ok(dir) => Ok(Group::of(tree, dir)),
            Err(errno) => Err(CgroupError::Make { path, source: errno.into() }),
        }
    }

    /// Takes over a directory whose lock we have.
    pub(super) fn of(tree: &Tree, dir: Dir) -> Group {
        let gauges = Gauges {
            events: Gauge::new("cgroup.events"),
            memory: Gauge::new("memory.current"),
            memory_peak: Gauge::new("memory.peak"),
            memory_events: Gauge::new("memory.events"),
            processes_peak: Gauge::new("pids.peak"),
            processes_events: Gauge::new("pids.events"),
            cpu: Gauge::new("cpu.stat"),
        };
        Group { dir, controllers: tree.controllers.clone(), gauges }
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Bounds memory and forbids swap.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<(), CgroupError> {
        const SWAP: &str = "memory.swap.max";
        self.dir.write("memory.max", bytes)?;
        // A kernel without swap has no such file; one that has swap but does not count it would
        // let the sandbox fill it, so there the limit is refused.
        if self.dir.has(SWAP) || has_swap() { self.dir.write(SWAP, 0) } else { Ok(()) }
    }

    pub(super) fn limit_processes(&self, most: u32) -> Result<(), CgroupError> {
        self.dir.write("pids.max", most)
    }

    pub(super) fn limit_cpu(&self, millis: u32) -> Result<(), CgroupError> {
        self.dir.write("cpu.max", format_args!("{} {PERIOD_MICROS}", quota_micros(millis)))
    }

    pub(super) fn lift_cpu(&self) -> Result<(), CgroupError> {
        self.dir.write("cpu.max", "max")
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.gauges.cpu.keyed(&self.dir, "usage_usec").map(Duration::from_micros)
    }

    /// What this hierarchy has measured; nothing for what it does not measure.
    pub(super) fn usage(&self) -> Usage {
        // CPU time is counted with and without controllers.
        let mut usage = Usage { cpu_time: self.cpu_time(), ..Usage::default() };
        if self.has(Controller::Memory) {
            usage.memory = self.gauges.memory.number(&self.dir);
            usage.memory_peak = self.gauges.memory_peak.number(&self.dir);
            usage.oom_kills =
                self.gauges.memory_events.keyed(&self.dir, "oom_kill").unwrap_or(0);
        }
        if self.has(Controller::Pids) {
            usage.processes_peak = self.gauges.processes_peak.number(&self.dir);
            usage.process_refusals =
                self.gauges.processes_events.keyed(&self.dir, "max").unwrap_or(0);
        }
        usage
    }

    /// Whether a living process is in the cgroup or below it. One that is gone has none.
    pub(super) fn is_populated(&self) -> bool {
        self.gauges.events.keyed(&self.dir, "populated").unwrap_or(0) != 0
    }

    /// Kills all processes at once, those that are being forked too. Linux before 5.14 says
    /// `ENOENT`.
    pub(super) fn kill(&self) -> Result<(), Errno> {
        self.dir.try_write("cgroup.kill", "1")
    }

    pub(super) fn set_frozen(&self, state: Frozen) -> Result<(), CgroupError> {
        match state {
            Frozen::Yes => self.dir.write("cgroup.freeze", 1),
            Frozen::No => self.dir.write("cgroup.freeze", 0),
        }
    }

    /// Sleeps until `cgroup.events` has `key` at `value` or the deadline has passed; says
    /// whether it came to be.
    pub(super) fn wait(&self, key: &str, value: u64, deadline: Instant) -> bool {
        let Ok(events) = self.dir.open("cgroup.events", OFlags::RDONLY) else { return false };
        let mut nap = Duration::from_micros(100);
        loop {
            // The reading also arms the next notice.
            let mut buffer = [0; 256];
            let Ok(length) = rustix::io::pread(&events, &mut buffer, 0) else { return false };
            let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
            if keyed(&text, key) == Some(value) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let mut polled = [PollFd::from_borrowed_fd(events.as_fd(), PollFlags::PRI)];
            let until = if nap < LONG { left.min(nap) } else { left };
            nap = nap.saturating_mul(2);
            let until = Timespec::try_from(until).ok();
            match rustix::event::poll(&mut polled, until.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Whether this host swaps at all: the first line of `/proc/swaps` is its heading.
fn has_swap() -> bool {
    text_of(Path::new("/proc/swaps")).is_ok_and(|it| it.lines().nth(1).is_some())
}
