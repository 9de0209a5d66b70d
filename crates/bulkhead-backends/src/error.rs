//! A backend could not do its work.

use std::io;

/// Why a sandbox was not built or a program not started.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The program is not there.
    #[error("`{program}` was not found in the sandbox")]
    NotFound {
        /// What was to be started, escaped.
        program: String,
    },
    /// The program is there and cannot be run.
    #[error("`{program}` cannot be run")]
    NotExecutable {
        /// What was to be started, escaped.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The working directory is not there.
    #[error("cannot start in `{dir}`")]
    Dir {
        /// Where the program was to start, escaped.
        dir: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Something that the plan shares cannot be shared.
    #[error("cannot share `{path}`: {why}")]
    Share {
        /// What was to be shared, escaped.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The image that is to be the root cannot be had or used.
    #[error("cannot use the image `{image}`")]
    Image {
        /// Which, as it was asked for.
        image: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
        /// What to do about it, if we know.
        hint: Option<String>,
    },
    /// One step of building the sandbox failed.
    #[error("could not {action}")]
    Build {
        /// What was to be done, as a verb.
        action: String,
        /// What the system said.
        #[source]
        source: io::Error,
        /// What to do about it, if we know.
        hint: Option<String>,
    },
    /// The system refused an operation on a running sandbox.
    #[error("could not {action}")]
    System {
        /// What was to be done, as a verb.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The daemon that builds the sandboxes of a backend did not do its part.
    #[error("{daemon} could not {action}")]
    Daemon {
        /// Whose daemon.
        daemon: &'static str,
        /// What it was to do, as a verb.
        action: &'static str,
        /// What it said, escaped.
        #[source]
        source: io::Error,
        /// What to do about it, if we know.
        hint: Option<String>,
    },
    /// The plan asks for something that this backend does not know how to build.
    #[error("the {backend} backend cannot build {what}")]
    Unsupported {
        /// Which backend.
        backend: &'static str,
        /// What it cannot build.
        what: &'static str,
    },
    /// The guest said something that it never says.
    #[error("the guest broke the protocol: {0}")]
    Guest(String),
}

impl BackendError {
    /// What to do about it, if we know.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Build { hint, .. } | Self::Image { hint, .. } | Self::Daemon { hint, .. } => {
                hint.as_deref()
            }
            Self::NotFound { .. }
            | Self::NotExecutable { .. }
            | Self::Dir { .. }
            | Self::Share { .. }
            | Self::System { .. }
            | Self::Unsupported { .. }
            | Self::Guest(_) => None,
        }
    }
}
