//! How it ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, EgressUsage, Guarantees, ImageFacts, Span};

/// What came of an exec.
///
/// A program that fails, is stopped or is refused by the kernel has an outcome. An *error* is
/// something else: it means that Bulkhead itself could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// The sandbox that it ran in.
    pub sandbox: String,
    /// What built that sandbox.
    pub backend: &'static str,
    /// The image that was its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageFacts>,
    /// What it used.
    pub usage: Usage,
    /// What passed through its way out, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressUsage>,
    /// The hosts that it wanted to reach and may not, as `host:port`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_hosts: Vec<String>,
    /// The promises that held throughout.
    pub upheld: Guarantees,
    /// Promises that defaults asked for and that this host could not keep.
    pub missing: Guarantees,
    /// What it wrote.
    pub stdout: Stream,
    /// What it complained about.
    pub stderr: Stream,
}

/// How a program ended; the thing that ended it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// It exited by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended it that Bulkhead did not send.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It ran past its deadline and was stopped.
    TimedOut {
        /// How long it was allowed to run.
        limit: Span,
    },
    /// All its programs together used more processor time than allowed and were stopped.
    CpuTimeExceeded {
        /// How much was allowed.
        limit: Span,
    },
    /// The kernel killed it because the sandbox was out of memory.
    OutOfMemory {
        /// How much was allowed.
        limit: Option<Bytes>,
    },
    /// It failed while its private disk was full.
    DiskFull {
        /// How much was allowed.
        limit: Option<Bytes>,
    },
    /// It printed more than allowed and was stopped.
    OutputLimit {
        /// How much was allowed.
        limit: Bytes,
    },
    /// The caller stopped it.
    Canceled {
        /// The signal that first asked it to stop.
        signal: i32,
    },
    /// The sandbox went away under it; how is not known.
    Lost,
}

impl Ending {
    /// The exit code by which a shell knows this ending.
    pub fn exit_code(&self) -> u8 {
        let code = match *self {
            Self::Exited { code } => code & 0xff,
            Self::Signaled { signal } | Self::Canceled { signal } => 128 + (signal & 0x7f),
            Self::TimedOut { .. } | Self::CpuTimeExceeded { .. } => 124,
            Self::OutOfMemory { .. } => 137,
            Self::DiskFull { .. } | Self::OutputLimit { .. } => 1,
            Self::Lost => 125,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// What a sandbox used. `None` where nobody on this host could tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// From start to end.
    #[serde(rename = "wall_seconds", serialize_with = "seconds")]
    pub wall: Duration,
    /// Processor time of all programs.
    #[serde(rename = "cpu_seconds", serialize_with = "maybe_seconds")]
    pub cpu: Option<Duration>,
    /// Memory in use now, in bytes. No part of a record: at the end there is none.
    #[serde(skip)]
    pub memory: Option<Bytes>,
    /// The most memory at one time, in bytes.
    pub memory_peak: Option<Bytes>,
    /// The most processes and threads at one time.
    pub processes_peak: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
    /// Times that a new process was refused.
    pub process_refusals: u64,
}

fn seconds<S: serde::Serializer>(it: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(it.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "serde hands the field over by reference")]
fn maybe_seconds<S: serde::Serializer>(
    it: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    it.map(|it| it.as_secs_f64()).serialize(to)
}

/// One of the two streams of a program, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// How much was written in all.
    pub bytes: u64,
    /// Whether less was kept than was written.
    pub truncated: bool,
    /// The first bytes.
    #[serde(skip)]
    pub head: Vec<u8>,
    /// The last bytes, where the first did not reach.
    #[serde(skip)]
    pub tail: Vec<u8>,
}
