//! The words of the API: what is asked, and what is answered.
//!
//! The document at `/openapi.json` is made from these types, so what it says is what is read and
//! written. Unknown fields are refused: a limit that is misspelt must not be ignored.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sandbox that is wanted. What is not said is as the server was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewSandbox {
    /// What you call it: letters, digits, `-`, `_` and `.`, at most 64. Unique among those that
    /// live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What you say about it, to find it by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The image that is its root; the host's own programs, read-only, if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Variables that every program in it starts with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Ceilings. One that cannot be held here is refused, never ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsAsked>,
    /// What it may talk to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkAsked>,
    /// How long it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<LifetimeAsked>,
    /// Guarantees to insist on, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
}

/// Ceilings of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsAsked {
    /// Memory of the whole sandbox, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors that it may keep busy, such as 1.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Live processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// What it writes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Files and directories that it makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Processor time of all its programs together, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// How long one program may run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// What one program may print, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Open files of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
}

/// What a sandbox may talk to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkAsked {
    /// Which kind of way out; `proxy` if something is to be allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<NetworkMode>,
    /// Hosts that may be reached, such as `example.org`, `*.example.org` or the name of a group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Hosts that may not, whatever else allows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Kinds of a way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// None.
    None,
    /// The hosts that rules allow.
    Proxy,
    /// Every public host; what was reached is written down.
    Observe,
}

/// How long a sandbox lives from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LifetimeAsked {
    /// How long at most, in seconds; without end if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<f64>,
    /// How long with no program running and nobody connected, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<f64>,
    /// What happens then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

/// What happens to a sandbox whose time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It ends.
    #[default]
    Kill,
    /// It is frozen until somebody wants it again.
    Pause,
}

/// A sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxInfo {
    /// Unique on this host, for ever.
    pub id: String,
    /// What its user calls it.
    pub name: String,
    /// What its user says about it.
    pub labels: BTreeMap<String, String>,
    /// What it does.
    pub state: SandboxState,
    /// What built it; what was asked for if it has ended.
    pub backend: String,
    /// The image that is its root, if one is.
    pub image: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When its time is over.
    pub expires_at: Option<String>,
    /// How long it may be unused, in seconds.
    pub idle_seconds: Option<f64>,
    /// What happens when its time is over.
    pub on_timeout: OnTimeout,
    /// When it ended, and what ended it.
    pub ended: Option<Ended>,
    /// The guarantees that hold.
    pub upheld: Vec<String>,
    /// Guarantees of the defaults that do not hold on this host.
    pub missing: Vec<String>,
    /// Where its programs start if nobody says.
    pub directory: Option<String>,
    /// Whether its disk outlives it.
    pub persistent: bool,
}

/// What a sandbox does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Programs run or can be started.
    Running,
    /// It is frozen.
    Paused,
    /// It is just coming or going.
    Changing,
    /// It is no more.
    Ended,
}

/// How a sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// When.
    pub at: String,
    /// What ended it: `stopped`, `expired`, `idle` or `lost`.
    pub why: String,
}

/// One page of sandboxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPage {
    /// Those on this page, the oldest first.
    pub sandboxes: Vec<SandboxInfo>,
    /// Where the next page begins; nothing on the last one.
    pub next_cursor: Option<String>,
}

/// What a sandbox has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStats {
    /// Seconds since it was made.
    pub wall_seconds: f64,
    /// Processor time of all programs.
    pub cpu_seconds: Option<f64>,
    /// Memory in use now.
    pub memory_bytes: Option<u64>,
    /// The most memory at one time.
    pub memory_peak_bytes: Option<u64>,
    /// Its limit.
    pub memory_limit_bytes: Option<u64>,
    /// Processes and threads at once, at most.
    pub processes_peak: Option<u64>,
    /// How many programs run.
    pub programs: u32,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
}

/// A program to start. Either `argv` or `command` is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewProgram {
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

/// One program, from its start to its end. Either `argv` or `command` is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecAsked {
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

/// Something in a sandbox's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileView {
    /// Its name.
    pub name: String,
    /// The whole of its path.
    pub path: String,
    /// The path in base64, where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_path: Option<String>,
    /// What it is.
    pub kind: FileKind,
    /// How many bytes it has.
    pub size: u64,
    /// Its permissions, such as 420 for `rw-r--r--`.
    pub mode: u32,
    /// Its user, as the sandbox counts.
    pub uid: u32,
    /// Its group, as the sandbox counts.
    pub gid: u32,
    /// When it was changed.
    pub modified_at: String,
    /// What it says, if it is a link.
    pub target: Option<String>,
}

/// What something in a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// By path.
    pub entries: Vec<FileView>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A directory to be made, with those that it lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDirectory {
    /// Where.
    pub path: String,
    /// Its permissions; 493 (`rwxr-xr-x`) if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4095))]
    pub mode: Option<u32>,
}

/// Something to be given another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveAsked {
    /// Its path.
    pub from: String,
    /// Its new path.
    pub to: String,
    /// Whether what is there may be replaced.
    #[serde(default)]
    pub replace: bool,
}

/// The ports on which programs of a sandbox listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// Ascending.
    pub ports: Vec<u16>,
}

/// A part of the record of what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// In the order in which they happened.
    pub events: Vec<EventView>,
    /// Where the next page begins.
    pub next_cursor: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Where it is in the record.
    pub cursor: String,
    /// When, in microseconds since 1970.
    pub time: u64,
    /// To which sandbox; empty for none.
    pub sandbox: String,
    /// What.
    #[serde(flatten)]
    pub what: BTreeMap<String, serde_json::Value>,
}

/// What each backend upholds on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// The version of the server.
    pub version: String,
    /// The backend that sandboxes are built by; `auto` for the first that can.
    pub default_backend: String,
    /// All that this host has.
    pub backends: Vec<BackendReport>,
}

/// What one backend upholds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// Whether an ordinary sandbox can be built by it.
    pub usable: bool,
    /// Why it cannot be asked, if it cannot.
    pub unavailable: Option<String>,
    /// Each guarantee.
    pub guarantees: Vec<GuaranteeReport>,
}

/// Whether a guarantee is upheld.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuaranteeReport {
    /// Its name.
    pub name: String,
    /// Whether it is.
    pub upheld: bool,
    /// By what, or why not.
    pub because: String,
    /// What would help.
    pub hint: Option<String>,
}

/// That the server lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or what is wrong.
    pub status: String,
}

/// What went wrong, as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemView {
    /// Which kind of trouble: `urn:bulkhead:problem:…`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What exactly.
    pub detail: String,
    /// The number of the error, for `bulkhead explain`.
    pub code: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
