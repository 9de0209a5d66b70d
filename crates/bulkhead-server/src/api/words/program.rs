//! Programs of a sandbox, and what they say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to run a program: what all of them can say, and what only this one can. As fields of
/// one object, because a field that nobody knows is to be refused, which `flatten` would not.
macro_rules! asking {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            /// The program and its arguments.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub argv: Vec<String>,
            /// A line for `/bin/sh`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub command: Option<String>,
            /// Where it starts, as the sandbox sees it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cwd: Option<String>,
            /// Variables on top of the sandbox's.
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            pub env: BTreeMap<String, String>,
            $($own)*
        }
    };
}

asking! {
    /// A program to start. Either `argv` or `command` is said.
    NewProgram {
        /// How long it may run, in seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_seconds: Option<f64>,
        /// Whether it reads what is sent to its `stdin`; else it finds the end at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdin: Option<bool>,
        /// The terminal that it runs on, if it is to have one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub terminal: Option<TerminalSize>,
        /// A name to find it by.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tag: Option<String>,
    }
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Lines.
    #[schemars(range(min = 1, max = 65535))]
    pub rows: u16,
    /// Characters in a line.
    #[schemars(range(min = 1, max = 65535))]
    pub columns: u16,
}

/// A program of a sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramView {
    /// How the sandbox calls it.
    pub id: u32,
    /// Its process as those inside count.
    pub pid: u32,
    /// How its caller calls it.
    pub tag: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it started.
    pub cwd: String,
    /// Whether it runs on a terminal.
    pub terminal: bool,
    /// When it started.
    pub started_at: String,
    /// Whether it still runs.
    pub running: bool,
    /// How it ended, if it has.
    pub ending: Option<EndingView>,
    /// How much it has said, in bytes.
    pub output_bytes: u64,
}

/// How a program ended; the thing that ended it says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndingView {
    /// What ended it.
    pub kind: EndingKind,
    /// The exit code by which a shell knows this ending.
    pub exit_code: i32,
    /// The signal, if one did.
    pub signal: Option<i32>,
}

/// What ended a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndingKind {
    /// It exited by itself.
    Exited,
    /// A signal that Bulkhead did not send.
    Signaled,
    /// Its time was over.
    TimedOut,
    /// The processor time of the sandbox was used up.
    CpuTimeExceeded,
    /// There was no memory left.
    OutOfMemory,
    /// There was no disk left.
    DiskFull,
    /// It printed too much.
    OutputLimit,
    /// Its caller stopped it.
    Canceled,
    /// Nobody knows: the sandbox went away under it.
    Lost,
}

/// The programs of a sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramList {
    /// Running, or ended not long ago; the oldest first.
    pub programs: Vec<ProgramView>,
}

/// A signal to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalAsked {
    /// Its name, with or without `SIG`, or its number: `TERM`, `SIGINT`, `9`.
    pub signal: String,
}

asking! {
    /// One program, from its start to its end. Either `argv` or `command` is said.
    ExecAsked {
        /// How long it may run, in seconds; 300 if not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_seconds: Option<f64>,
        /// What it reads.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdin: Option<String>,
        /// How much of each stream is kept, in bytes: the first half and the last; 1 MiB if not said,
        /// 16 MiB at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub keep_bytes: Option<u64>,
        /// How output is written in the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub encoding: Option<Encoding>,
    }
}

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As text; what is none is replaced.
    #[default]
    Text,
    /// In base64, exactly.
    Base64,
}

/// What came of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecOutcome {
    /// How the sandbox calls the program.
    pub program: u32,
    /// The exit code by which a shell knows its ending.
    pub exit_code: i32,
    /// How it ended.
    pub ending: EndingView,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How much it wrote on both in all, in bytes.
    pub output_bytes: u64,
    /// Whether less was kept than was written.
    pub truncated: bool,
    /// How long it ran.
    pub duration_seconds: f64,
}

/// What programs of a sandbox said, as far as it is still there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// Program by program.
    pub entries: Vec<LogEntry>,
}

/// What one program said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// Which.
    pub program: u32,
    /// Its tag.
    pub tag: Option<String>,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// Bytes that are no longer there.
    pub lost_bytes: u64,
    /// Whether it still runs.
    pub running: bool,
}
