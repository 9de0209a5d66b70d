//! What a sandbox gets where nobody said.

use std::time::Duration;

use bulkhead_spec::{Bytes, Cpus, Limits, Span};

/// How long a program may run while nobody watches it.
pub(crate) const UNWATCHED: Span = Span(Duration::from_mins(30));

/// The built-in limits on this machine.
pub(crate) fn defaults() -> Limits {
    let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    Limits {
        memory: Some(Bytes(4 << 30)),
        cpus: Cpus::from_millis(processors.clamp(1, 2) * 1000).ok(),
        pids: Some(1024),
        disk: Some(Bytes(10 << 30)),
        inodes: Some(1_000_000),
        cpu_time: None,
        timeout: Some(UNWATCHED),
        output: Some(Bytes(1 << 30)),
        files: Some(4096),
    }
}
