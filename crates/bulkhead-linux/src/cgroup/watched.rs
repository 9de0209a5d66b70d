//! The counters of a cgroup that somebody else made, such as a container daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits::Usage;
use super::parse::{self, Hierarchy};

/// A cgroup that is looked at and not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// In each hierarchy where it has a place of its own.
    parts: Vec<PathBuf>,
}

impl Watched {
    /// The cgroup of the process `pid`, if its name contains `name`: so a process that came to be
    /// known by this number meanwhile, or in another namespace, is not taken for it.
    pub fn of(pid: u32, name: &str) -> Option<Self> {
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let parts = places(&mounts, &own, name);
        if parts.is_empty() { None } else { Some(Self { parts }) }
    }

    /// What it has used until now. When the cgroup is gone, so are its counters.
    pub fn usage(&self) -> Option<Usage> {
        let mut usage = Usage::default();
        let mut there = false;
        for dir in &self.parts {
            there |= dir.is_dir();
            let number = |file| number(&dir.join(file));
            let keyed = |file, key| keyed(&dir.join(file), key);
            let cpu = number("cpuacct.usage").map(Duration::from_nanos);
            let cpu =
                cpu.or_else(|| keyed("cpu.stat", "usage_usec").map(Duration::from_micros));
            let memory = number("memory.max_usage_in_bytes").or_else(|| number("memory.peak"));
            let now = number("memory.usage_in_bytes").or_else(|| number("memory.current"));
            usage.memory = usage.memory.or(now);
            usage.cpu_time = usage.cpu_time.or(cpu);
            usage.memory_peak = usage.memory_peak.or(memory);
            usage.processes_peak = usage.processes_peak.or_else(|| number("pids.peak"));
            let kills = keyed("memory.oom_control", "oom_kill");
            usage.oom_kills +=
                kills.or_else(|| keyed("memory.events", "oom_kill")).unwrap_or(0);
            usage.process_refusals += keyed("pids.events", "max").unwrap_or(0);
        }
        there.then_some(usage)
    }
}

/// Where the cgroups that `own` tells of are, those whose name contains `name`.
fn places(mounts: &str, own: &str, name: &str) -> Vec<PathBuf> {
    let place = |mount: parse::Mount| {
        let path = parse::own(own, &mount.hierarchy)?;
        path.contains(name).then(|| mount.place_of(path))
    };
    let mut found: Vec<PathBuf> = parse::mounts(mounts)
        .into_iter()
        .filter(|it| match &it.hierarchy {
            Hierarchy::V1(controllers) => !controllers.is_empty(),
            Hierarchy::V2 => true,
        })
        .filter_map(place)
        .collect();
    found.dedup();
    found
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::places;

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 25 0:29 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
";

    #[test]
    fn only_the_named_cgroup_is_watched() {
        let own = "4:memory:/docker/abc123\n3:cpu,cpuacct:/docker/abc123\n0::/system.slice\n";
        let found = places(MOUNTS, own, "abc123");
        assert_eq!(
            found,
            [
                std::path::Path::new("/sys/fs/cgroup/memory/docker/abc123"),
                std::path::Path::new("/sys/fs/cgroup/cpu,cpuacct/docker/abc123"),
            ]
        );
        assert!(places(MOUNTS, "4:memory:/user.slice\n0::/init.scope\n", "abc123").is_empty());
    }
}
