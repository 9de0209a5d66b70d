//! What a sandbox promises its host.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One promise that a sandbox keeps towards its host.
///
/// A plan lists those that it requires, a backend lists those that it upholds on this host, and a
/// plan is built only where the first list is part of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Guarantee {
    /// Only the files that the plan names can be seen.
    HostFilesHidden,
    /// Of the host's files, only those that the plan makes writable can be changed.
    WorkspaceOnlyWritable,
    /// Files that the host's user would run later (hooks, editor tasks, rc files) stay as they are.
    HostTriggersProtected,
    /// Nothing outside the sandbox can be talked to.
    NoNetwork,
    /// Nothing outside can be talked to but by way of the egress gateway.
    EgressOnlyThroughProxy,
    /// Memory has a ceiling, swap included.
    MemoryBounded,
    /// The rate at which processors are used has a ceiling.
    CpuBounded,
    /// The processor time that all programs use together has a ceiling.
    CpuTimeBounded,
    /// The number of processes and threads has a ceiling.
    ProcessesBounded,
    /// The number of files that one process can have open has a ceiling.
    OpenFilesBounded,
    /// What is written outside the workspace has a ceiling, in bytes and in files.
    DiskBounded,
    /// What is written to the workspace has a ceiling too.
    WorkspaceDiskBounded,
    /// What programs print has a ceiling.
    OutputBounded,
    /// When the sandbox ends, every program in it has ended.
    NothingSurvives,
    /// No program can gain a privilege that it did not start with.
    NoNewPrivileges,
    /// Only listed system calls reach the kernel.
    SyscallsFiltered,
    /// No program has the host's root identity.
    UnprivilegedOnHost,
    /// System calls are served by another kernel in user space.
    HostKernelShielded,
    /// The sandbox runs a kernel of its own.
    OwnKernel,
}

/// A text that names no guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a guarantee; known are {}", crate::escape(.0), Guarantees::all())]
pub struct UnknownGuarantee(String);

impl Guarantee {
    /// Every promise there is.
    pub const ALL: [Self; 19] = [
        Self::HostFilesHidden,
        Self::WorkspaceOnlyWritable,
        Self::HostTriggersProtected,
        Self::NoNetwork,
        Self::EgressOnlyThroughProxy,
        Self::MemoryBounded,
        Self::CpuBounded,
        Self::CpuTimeBounded,
        Self::ProcessesBounded,
        Self::OpenFilesBounded,
        Self::DiskBounded,
        Self::WorkspaceDiskBounded,
        Self::OutputBounded,
        Self::NothingSurvives,
        Self::NoNewPrivileges,
        Self::SyscallsFiltered,
        Self::UnprivilegedOnHost,
        Self::HostKernelShielded,
        Self::OwnKernel,
    ];
}

impl fmt::Display for Guarantee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

impl FromStr for Guarantee {
    type Err = UnknownGuarantee;

    fn from_str(name: &str) -> Result<Self, UnknownGuarantee> {
        let plain = |it: &str| it.replace(['-', '_'], "").to_ascii_lowercase();
        let wanted = plain(name);
        Self::ALL
            .into_iter()
            .find(|it| plain(&it.to_string()) == wanted)
            .ok_or_else(|| UnknownGuarantee(name.to_owned()))
    }
}

/// A set of promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guarantees(BTreeSet<Guarantee>);

impl Guarantees {
    /// Every promise there is.
    pub fn all() -> Self {
        Guarantee::ALL.into_iter().collect()
    }

    /// Whether `guarantee` is among them.
    pub fn contains(&self, guarantee: Guarantee) -> bool {
        self.0.contains(&guarantee)
    }

    /// Those of `self` that `upheld` lacks.
    #[must_use]
    pub fn missing_from(&self, upheld: &Self) -> Self {
        self.0.difference(&upheld.0).copied().collect()
    }

    /// Those that both have.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of [`Guarantee::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Guarantee> {
        self.0.iter().copied()
    }
}

impl FromIterator<Guarantee> for Guarantees {
    fn from_iter<I: IntoIterator<Item = Guarantee>>(guarantees: I) -> Self {
        Self(guarantees.into_iter().collect())
    }
}

impl std::ops::BitOr for Guarantees {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl fmt::Display for Guarantees {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, guarantee) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(out, "{comma}{guarantee}")?;
        }
        Ok(())
    }
}
