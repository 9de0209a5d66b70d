//! Checkpoints: the disks of sandboxes, kept, and the sandboxes that are made of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SandboxInfo;

/// A checkpoint that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewCheckpoint {
    /// What to call it; the name of the sandbox with a number if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What was on the disk of a sandbox at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointInfo {
    /// What its user calls it; unique.
    pub name: String,
    /// The name of the sandbox that it was taken of.
    pub sandbox: String,
    /// The id of that sandbox.
    pub sandbox_id: String,
    /// When it was taken.
    pub created_at: String,
    /// Bytes of the files that the sandbox had written.
    pub bytes: u64,
    /// How many files and directories those were.
    pub files: u64,
    /// What built the sandbox.
    pub backend: String,
    /// What a disk that begins with it consists of, the topmost first.
    pub layers: Vec<String>,
}

/// One page of checkpoints, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointPage {
    /// Those on it.
    pub checkpoints: Vec<CheckpointInfo>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

/// A sandbox that is to be made of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestoreAsked {
    /// What to call the new sandbox. If not said, it takes the place of the one that the checkpoint
    /// was taken of, with its name, its labels and its lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the one whose place it takes may be ended though it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Sandboxes that are to begin where another one is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForkAsked {
    /// How many; one if not said, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// They are called `NAME-1`, `NAME-2`, …; by the name of the sandbox if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Sandboxes that were made together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forked {
    /// All of them.
    pub sandboxes: Vec<SandboxInfo>,
}
