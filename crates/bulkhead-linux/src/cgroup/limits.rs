//! What a sandbox may use and what it has used, in the same words for both hierarchies.

use std::time::Duration;

/// What a sandbox may use. `None` means that there is no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory; swap is not given in addition.
    pub memory: Option<u64>,
    /// Thousandths of a CPU: 1000 is one whole CPU. The kernel takes no less than 10.
    pub cpu_millis: Option<u32>,
    /// Processes and threads at the same time.
    pub processes: Option<u32>,
}

/// What a sandbox has used so far, and how often it met a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that it holds now.
    pub memory: Option<u64>,
    /// The most bytes of memory it held at any time, where the kernel keeps that.
    pub memory_peak: Option<u64>,
    /// CPU time of all its processes, the dead ones included.
    pub cpu_time: Option<Duration>,
    /// The most processes and threads it had at any time, where the kernel keeps that.
    pub processes_peak: Option<u64>,
    /// Processes that the kernel killed because the memory was used up. One event may count
    /// more than once.
    pub oom_kills: u64,
    /// Forks that were refused because there were too many processes.
    pub process_refusals: u64,
}

/// The period over which a CPU quota is counted.
pub(super) const PERIOD_MICROS: u64 = 100_000;

/// How much CPU time that share is in one period.
pub(super) fn quota_micros(millis: u32) -> u64 {
    u64::from(millis) * (PERIOD_MICROS / 1000)
}
