//! A configuration that cannot be used.

use std::{io, path::Path};

use super::shown;

/// Why the configuration cannot be used, and where it says so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file is there and cannot be read.
    #[error("could not read the configuration `{path}`")]
    Read {
        /// Which file, escaped.
        path: String,
        #[source]
        source: io::Error,
    },
    /// It is not TOML.
    #[error("{place}: {why}")]
    Syntax {
        /// File, line and column.
        place: String,
        /// What the parser said.
        why: String,
    },
    /// A key that does not exist.
    #[error("{place}: there is no key `{key}`")]
    UnknownKey {
        /// File, line and column.
        place: String,
        /// The key, with its table.
        key: String,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// A value that the key cannot have.
    #[error("{place}: `{key}`: {why}")]
    Value {
        /// File, line and column.
        place: String,
        /// The key, with its table.
        key: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A variable with a value that it cannot have.
    #[error("{name}: {why}")]
    Variable {
        /// Which variable.
        name: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The project's file wants more than the user's own layers give.
    #[error("`{path}` comes with the project and asks for more than you have allowed")]
    Untrusted {
        /// Which file, escaped.
        path: String,
        /// What it would widen.
        widens: Vec<String>,
    },
    /// There is no directory for Bulkhead's own files.
    #[error("neither HOME nor XDG_STATE_HOME nor BULKHEAD_HOME says where to keep records")]
    Homeless,
    /// The store of trusted files cannot be used.
    #[error("could not use the store of trusted files `{path}`")]
    Store {
        /// Which file, escaped.
        path: String,
        #[source]
        source: io::Error,
    },
}

impl ConfigError {
    /// A file that the user named and that is not there.
    pub(crate) fn absent(path: &Path) -> Self {
        Self::Read { path: shown(path), source: rustix::io::Errno::NOENT.into() }
    }
}
