//! Sandboxes: as they are wanted, and as they are.

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
    /// What ended it: `stopped`, `expired`, `idle`, `lost` or `unbuilt`.
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

/// The ports on which programs of a sandbox listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// Ascending.
    pub ports: Vec<u16>,
}
