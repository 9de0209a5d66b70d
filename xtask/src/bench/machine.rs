//! On what the figures were taken.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::thread;

use serde::Serialize;

/// What somebody needs to know before comparing two tables.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    kernel: String,
    cores: usize,
    memory_gib: u64,
    cgroups: &'static str,
    /// The one-minute load average before the run.
    load_before: String,
    load_after: String,
}

impl Machine {
    pub(crate) fn before_the_run() -> Self {
        Self {
            kernel: version(&read("/proc/sys/kernel/osrelease")),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
            cgroups: match (mounted("cgroup").is_empty(), mounted("cgroup2").is_empty()) {
                (true, true) => "none",
                (true, false) => "v2",
                (false, true) => "v1",
                (false, false) => "hybrid",
            },
            load_before: load(),
            load_after: String::new(),
        }
    }

    #[must_use]
    pub(crate) fn after_the_run(mut self) -> Self {
        self.load_after = load();
        self
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Linux {}, {} cores, {} GiB, cgroups {}, load {} before and {} after",
            self.kernel,
            self.cores,
            self.memory_gib,
            self.cgroups,
            self.load_before,
            self.load_after
        )
    }
}

/// The numbers of a release of Linux, without what a distributor appends.
fn version(release: &str) -> String {
    release.split(['-', '+']).next().unwrap_or_default().to_owned()
}

/// The v2 tree of a host that also has v1 controllers, which some runtimes refuse.
pub(crate) fn unified_beside_v1() -> Option<PathBuf> {
    let unified = mounted("cgroup2").into_iter().next()?;
    (!mounted("cgroup").is_empty()).then_some(unified)
}

/// Where file systems of a type are mounted.
fn mounted(kind: &str) -> Vec<PathBuf> {
    let mounts = read("/proc/self/mounts");
    let of_kind = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let at = fields.next()?;
        (fields.next()? == kind).then(|| PathBuf::from(at))
    });
    of_kind.collect()
}

fn memory_gib() -> u64 {
    let meminfo = read("/proc/meminfo");
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = kib.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default().div_ceil(1024 * 1024)
}

fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
