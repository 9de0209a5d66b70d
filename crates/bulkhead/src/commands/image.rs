//! `bulkhead image …`: root filesystems for sandboxes, made from the project's own files.

mod bootstrap;
mod build;
mod daemon;
mod first_use;
mod init;
mod ls;
mod prune;
mod recipe;
mod scan;
mod write;

pub(crate) use first_use::{ProjectImage, first_use, foretold};
pub(crate) use recipe::{is_recipe, review};

use crate::{args::image::ImageVerb, config::Environment, failure::Failure, printer::Printer};

/// Does what was asked for.
pub(crate) fn run(
    verb: &ImageVerb,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    match verb {
        ImageVerb::Init(args) => init::run(args, environment, printer),
        ImageVerb::Build(args) => build::run(args, environment, printer),
        ImageVerb::Ls(args) => ls::run(args, environment, printer),
        ImageVerb::Prune(args) => prune::run(args, environment, printer),
        ImageVerb::Scan(args) => scan::run(args, environment, printer),
        ImageVerb::Bootstrap(args) => bootstrap::run(args, environment, printer),
    }
}
