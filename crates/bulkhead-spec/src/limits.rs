//! Ceilings on what a sandbox uses.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Cpus, Span};

/// Ceilings. In a `Spec`, `None` means "not said"; in a `Policy`, "no ceiling".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole sandbox; there is no swap beside it.
    pub memory: Option<Bytes>,
    /// Processors that it may keep busy.
    pub cpus: Option<Cpus>,
    /// Live processes and threads.
    pub pids: Option<u32>,
    /// What it writes outside the workspace: home, `/tmp` and every private layer together.
    pub disk: Option<Bytes>,
    /// Files and directories that it makes outside the workspace.
    pub inodes: Option<u64>,
    /// Processor time of all its programs together.
    pub cpu_time: Option<Span>,
    /// How long a program may run.
    pub timeout: Option<Span>,
    /// What a program may print, on both streams together.
    pub output: Option<Bytes>,
    /// Open files of one process.
    pub files: Option<u32>,
}

impl Limits {
    /// Each limit of `self`, or of `other` where `self` has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory.or(other.memory),
            cpus: self.cpus.or(other.cpus),
            pids: self.pids.or(other.pids),
            disk: self.disk.or(other.disk),
            inodes: self.inodes.or(other.inodes),
            cpu_time: self.cpu_time.or(other.cpu_time),
            timeout: self.timeout.or(other.timeout),
            output: self.output.or(other.output),
            files: self.files.or(other.files),
        }
    }

    /// The lower of each pair; no limit is the highest.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        Self {
            memory: lower(self.memory, other.memory),
            cpus: lower(self.cpus, other.cpus),
            pids: lower(self.pids, other.pids),
            disk: lower(self.disk, other.disk),
            inodes: lower(self.inodes, other.inodes),
            cpu_time: lower(self.cpu_time, other.cpu_time),
            timeout: lower(self.timeout, other.timeout),
            output: lower(self.output, other.output),
            files: lower(self.files, other.files),
        }
    }
}

fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (limit, None) | (None, limit) => limit,
    }
}
