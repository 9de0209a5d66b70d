//! The command line of `image`.

use std::path::PathBuf;

use bulkhead_image::project::Language;
use bulkhead_spec::{Bytes, Span};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use crate::printer::Format;

/// `image …`
#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Write a Dockerfile for the project, from its own files
    Init(InitArgs),
    /// Build the project's image, if nothing like it was built before
    Build(BuildArgs),
    /// List the images that Bulkhead made or unpacked
    Ls(ListArgs),
    /// Remove images that Bulkhead made or unpacked and nothing uses
    Prune(PruneArgs),
    /// Look for known weaknesses in an image, with trivy or grype
    Scan(ScanArgs),
    /// Make the default image for agents from Debian's packages, without a registry
    Bootstrap(BootstrapArgs),
}

impl ImageVerb {
    /// How its failures are written.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Init(args) => args.json.into(),
            Self::Build(args) => args.told.json.into(),
            Self::Ls(args) => args.json.into(),
            Self::Prune(args) => args.told.json.into(),
            Self::Bootstrap(args) => args.json.into(),
            Self::Scan(_) => Format::Text,
        }
    }
}

/// `image init`
#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// The project, or a directory with several; the current directory if not said
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// What to do instead of writing.
    #[command(flatten)]
    pub(crate) instead: InsteadArgs,
    /// What is written.
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Write over files that are there
    #[arg(long, conflicts_with_all = ["check", "print"])]
    pub(crate) force: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do instead of writing
#[derive(Debug, ClapArgs)]
pub(crate) struct InsteadArgs {
    /// Write nothing; say what no longer fits, and exit with 1 if anything does
    #[arg(long, conflicts_with = "print")]
    pub(crate) check: bool,
    /// Write nothing; print what would be written
    #[arg(long)]
    pub(crate) print: bool,
}

/// What a Dockerfile is like
#[derive(Debug, ClapArgs)]
pub(crate) struct ContentArgs {
    /// Take the project for one of LANGUAGE: go, rust, java, python, node
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<Language>,
    /// Keep downloads between builds; only `BuildKit` can build that
    #[arg(long)]
    pub(crate) cache_mounts: bool,
    /// Ask no registry for digests
    #[arg(long)]
    pub(crate) offline: bool,
}

/// `image build`
#[derive(Debug, ClapArgs)]
pub(crate) struct BuildArgs {
    /// The project; the current directory if not said
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Build FILE instead of the project's `.sandbox/Dockerfile` or devcontainer
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Build up to STAGE; the one called `sandbox`, or the last, if not said
    #[arg(long, value_name = "STAGE")]
    pub(crate) target: Option<String>,
    /// Build although nobody has trusted the Dockerfile
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// What the build may use.
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    /// Do every step again
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How the result is told.
    #[command(flatten)]
    pub(crate) told: ListArgs,
}

/// What a build may use
#[derive(Debug, ClapArgs)]
pub(crate) struct SourceArgs {
    /// Let the steps of the build reach the network
    #[arg(long)]
    pub(crate) network: bool,
    /// Use only base images that are here
    #[arg(long)]
    pub(crate) no_pull: bool,
}

/// `image ls`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `image prune`
#[derive(Debug, ClapArgs)]
pub(crate) struct PruneArgs {
    /// Remove those that were made longer ago than AGE [default: 30d, unless a size is said]
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<Span>,
    /// Remove the oldest until the others hold no more than SIZE
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<Bytes>,
    /// Remove all that nothing uses
    #[arg(long, conflicts_with_all = ["older_than", "max_size"])]
    pub(crate) all: bool,
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// How the result is told.
    #[command(flatten)]
    pub(crate) told: ListArgs,
}

/// `image scan`
#[derive(Debug, ClapArgs)]
pub(crate) struct ScanArgs {
    /// The image; the last one that was built for this directory if not said
    #[arg(value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Write SARIF to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Exit with 1 if something of at least LEVEL is found
    #[arg(long, value_name = "LEVEL")]
    pub(crate) fail_on: Option<Level>,
}

/// How bad a finding is, in the words of SARIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    /// Good to know.
    Note,
    /// Worth a look.
    Warning,
    /// To be mended.
    Error,
}

/// `image bootstrap`
#[derive(Debug, ClapArgs)]
pub(crate) struct BootstrapArgs {
    /// Which Debian
    #[arg(long, value_name = "SUITE", default_value = "bookworm")]
    pub(crate) suite: String,
    /// What the image is called
    #[arg(long, value_name = "NAME", default_value = "bulkhead/agent:latest")]
    pub(crate) tag: String,
    /// Add a package of Debian; may be said again
    #[arg(long = "package", value_name = "PACKAGE")]
    pub(crate) packages: Vec<String>,
    /// Write the image to FILE, as `docker save` does, instead of to a daemon
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
