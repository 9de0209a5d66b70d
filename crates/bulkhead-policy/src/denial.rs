//! A wish that the policy refuses.

use bulkhead_spec::{GuestPath, HostPath, Network};

/// Why a spec or an exec was refused; each names what was asked and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// More of something than the ceiling.
    #[error("asked for {asked} {what}, the ceiling is {ceiling}")]
    TooMuch {
        /// What there is a ceiling on, as it is said after a number.
        what: &'static str,
        /// What was asked for.
        asked: String,
        /// What the policy allows.
        ceiling: String,
    },
    /// Less of something than a sandbox can start with.
    #[error("the limit on {what} is {limit}, a sandbox needs at least {least}")]
    TooLittle {
        /// What there must be enough of.
        what: &'static str,
        /// What the caller or the policy would have it get.
        limit: String,
        /// What is needed.
        least: String,
    },
    /// A mount from a directory that is not shared.
    #[error("`{0}` is outside the directories that may be mounted")]
    Mount(HostPath),
    /// A mount of something that would open a way around the walls.
    #[error("`{0}` cannot be shared: it would open a way around the walls")]
    Dangerous(HostPath),
    /// A mount over a place that the sandbox itself needs.
    #[error("`{0}` belongs to the sandbox itself, nothing can be mounted there")]
    Reserved(GuestPath),
    /// An image that may not be a root.
    #[error("the image `{asked}` is not among those allowed: {}", crate::images::shown(.allowed))]
    Image {
        /// What was asked for.
        asked: String,
        /// What the policy allows.
        allowed: Vec<String>,
    },
    /// An image that says nothing about what runs in it.
    #[error("the image `{0}` names no program to run, so one must be given")]
    NoEntry(String),
    /// A wider network than the ceiling.
    #[error("asked for network `{}`, the ceiling is `{}`", name(*.asked), name(*.ceiling))]
    Network {
        /// What was asked for.
        asked: Network,
        /// What the policy allows.
        ceiling: Network,
    },
    /// A working directory that leads out of the file tree.
    #[error("cannot start in `{0}`: a working directory under `/proc` could lead outside")]
    Dir(GuestPath),
    /// No program was named.
    #[error("no program was named")]
    NoProgram,
    /// Arguments and variables that no system call takes.
    #[error("{0}")]
    Malformed(&'static str),
}

fn name(network: Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Proxy => "proxy",
        Network::Observe => "observe",
        Network::Open => "open",
    }
}
