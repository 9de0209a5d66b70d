//! The verbs, one file each. Each returns the exit code.

pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod egress;
mod endings;
mod examined;
pub(crate) mod explain;
pub(crate) mod image;
pub(crate) mod key;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod rooms;
pub(crate) mod run;
pub(crate) mod serve;
mod sysctl;
pub(crate) mod trust;
pub(crate) mod version;

use std::path::PathBuf;

use crate::{codes::Code, failure::Failure};

/// The directory that Bulkhead was started in.
pub(crate) fn current_dir() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::new(Code::Workspace, "the current directory is gone or cannot be reached")
            .because(error)
            .hint("change to another directory, or name one with --workspace")
    })
}
