//! Which promise holds which limit.
//!
//! A limit that nobody holds is not a limit, so asking for one requires a backend that can.

use bulkhead_spec::{
    Guarantee::{
        self, CpuBounded, CpuTimeBounded, DiskBounded, MemoryBounded, OpenFilesBounded,
        OutputBounded, ProcessesBounded,
    },
    Guarantees, Limits,
};

/// The promises that `limits` need.
pub(crate) fn limits(limits: &Limits) -> Guarantees {
    // Bound one by one, so that a new limit does not compile until it has its promise here.
    let Limits { memory, cpus, pids, disk, inodes, cpu_time, timeout: _, output, files } =
        limits;
    let asked = [
        memory.map(|_| MemoryBounded),
        cpus.map(|_| CpuBounded),
        pids.map(|_| ProcessesBounded),
        disk.map(|_| DiskBounded),
        inodes.map(|_| DiskBounded),
        cpu_time.map(|_| CpuTimeBounded),
        output.map(|_| OutputBounded),
        files.map(|_| OpenFilesBounded),
    ];
    asked.into_iter().flatten().collect()
}

/// `limits` without those whose promise is `missing`.
pub(crate) fn held(limits: Limits, missing: &Guarantees) -> Limits {
    fn keep<T>(limit: Option<T>, by: Guarantee, missing: &Guarantees) -> Option<T> {
        limit.filter(|_| !missing.contains(by))
    }
    Limits {
        memory: keep(limits.memory, MemoryBounded, missing),
        cpus: keep(limits.cpus, CpuBounded, missing),
        pids: keep(limits.pids, ProcessesBounded, missing),
        disk: keep(limits.disk, DiskBounded, missing),
        inodes: keep(limits.inodes, DiskBounded, missing),
        cpu_time: keep(limits.cpu_time, CpuTimeBounded, missing),
        timeout: limits.timeout,
        output: keep(limits.output, OutputBounded, missing),
        files: keep(limits.files, OpenFilesBounded, missing),
    }
}
