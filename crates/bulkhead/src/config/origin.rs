//! Where a value came from.

use std::{fmt, path::PathBuf};

use bulkhead_spec::escape_bytes;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody said anything.
    BuiltIn,
    /// A line of a file.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, the first being 1.
        line: usize,
    },
    /// A variable.
    Variable(&'static str),
    /// A flag, with its dashes.
    Flag(&'static str),
    /// The profile of an agent, by its name.
    Agent(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => out.write_str("built-in"),
            Self::File { path, line } => {
                write!(out, "{}:{line}", escape_bytes(path.as_os_str().as_encoded_bytes()))
            }
            Self::Variable(name) | Self::Flag(name) => out.write_str(name),
            Self::Agent(name) => write!(out, "agent {name}"),
        }
    }
}
