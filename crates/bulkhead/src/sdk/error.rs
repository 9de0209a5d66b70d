//! What could not be done.

use std::io;

use bulkhead_engine::{
    RunError,
    rooms::{ClientError, JournalError},
};
use bulkhead_server::words::ProblemView;

use super::InvalidAddress;

/// Bulkhead could not do its work. A program that fails is no error: it has an [`super::Output`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The address of a server makes no sense.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The server cannot be reached, or broke off.
    #[error("the server does not answer")]
    Unreachable(#[source] io::Error),
    /// It was refused, or could not be done.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<ProblemView>),
    /// The server answered something else than Bulkhead would.
    #[error("the server gave no sensible answer: {0}")]
    Confused(String),
    /// The sandbox did not do what was asked of it.
    #[error(transparent)]
    Sandbox(#[from] ClientError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The journal of sandboxes cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system refused something.
    #[error("could not {action}")]
    System {
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl SandboxError {
    /// What would help, if anything is known to.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => problem.hint.as_deref(),
            Self::Sandbox(ClientError::Failed(failed)) => failed.hint.as_deref(),
            Self::Run(error) => error.hint(),
            Self::Address(_)
            | Self::Unreachable(_)
            | Self::Confused(_)
            | Self::Sandbox(_)
            | Self::Journal(_)
            | Self::System { .. } => None,
        }
    }
}

impl From<Box<ProblemView>> for SandboxError {
    fn from(problem: Box<ProblemView>) -> Self {
        Self::Problem(problem)
    }
}
