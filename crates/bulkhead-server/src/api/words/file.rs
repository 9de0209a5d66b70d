//! Files of a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
