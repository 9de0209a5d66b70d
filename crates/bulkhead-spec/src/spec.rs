//! A room as somebody asked for it.

use std::{collections::BTreeMap, ffi::OsString};

use serde::{Deserialize, Serialize};

use crate::{Egress, Guarantees, GuestPath, HostPath, ImageRef, Limits};

/// What a caller wants of a sandbox. The default asks for the least: the host's own programs
/// read-only, no workspace, no network, no variables, the walls up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the sandbox sees as `/`.
    pub root: Root,
    /// The directory that is worked on.
    pub workspace: Option<Workspace>,
    /// Further host directories and files to share.
    pub mounts: Vec<Mount>,
    /// Empty private directories, besides home and `/tmp`.
    pub tmpfs: Vec<GuestPath>,
    /// The private home directory; `/home/sandbox` if not said.
    pub home: Option<GuestPath>,
    /// Ceilings that the caller insists on.
    pub limits: Limits,
    /// What the sandbox may talk to.
    pub network: Network,
    /// Which hosts that are, with a network that asks rules.
    pub egress: Egress,
    /// Small files to be found in the private home, by their names there.
    pub home_files: BTreeMap<String, String>,
    /// Variables every program in the sandbox starts with.
    #[serde(with = "crate::words::pairs")]
    pub env: BTreeMap<OsString, OsString>,
    /// Variables for where neither those say anything nor an image that is the root.
    #[serde(with = "crate::words::pairs")]
    pub fallback_env: BTreeMap<OsString, OsString>,
    /// Which system calls are let through.
    pub syscalls: Syscalls,
    /// Whether the walls are wanted.
    pub walls: Walls,
    /// Promises the caller insists on, beyond those the policy adds.
    pub require: Guarantees,
}

/// Where the root filesystem comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Root {
    /// The host's own programs and libraries, from an allow-list, read-only.
    #[default]
    Host,
    /// A directory on the host that holds a root filesystem; it is never written to.
    Directory(HostPath),
    /// An image; changes are private.
    Image(ImageRef),
}

/// The directory that is worked on, seen inside at its own path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The directory, on both sides.
    pub dir: HostPath,
    /// What the sandbox may do with it.
    pub access: Access,
    /// What becomes of files that usually hold secrets.
    pub env_files: EnvFiles,
    /// Names below it that the caller said need no protection, such as `.git`.
    pub unprotected: Vec<String>,
}

/// What becomes of the `.env*` files of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvFiles {
    /// They look empty.
    #[default]
    Hidden,
    /// They are files like any other.
    Shown,
}

/// One host directory or file, seen inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// What is shared.
    pub from: HostPath,
    /// Where the sandbox sees it.
    pub to: GuestPath,
    /// What the sandbox may do with it.
    pub access: Access,
}

/// What may be done with a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Look, do not touch.
    #[default]
    ReadOnly,
    /// Changes reach the host.
    ReadWrite,
    /// Changes are seen inside only, and end with the sandbox.
    Private,
}

/// What the sandbox may talk to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Nothing but itself.
    #[default]
    None,
    /// The hosts that rules allow, by way of the egress gateway.
    Proxy,
    /// Every public host, by way of the egress gateway, which writes down what was reached.
    Observe,
    /// Whatever the host can; nothing is filtered.
    Open,
}

/// Which system calls are let through.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Syscalls {
    /// What ordinary programs use.
    #[default]
    Standard,
    /// What debuggers use as well: ptrace and its kin, within the sandbox.
    Debug,
}

/// Whether the walls are wanted at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Walls {
    /// Every wall that the policy knows is required.
    #[default]
    Up,
    /// The caller said by name that no wall is wanted.
    Waived,
}
