//! `policy …`, as flags.

use clap::{Args as ClapArgs, Subcommand};

use super::{FromArgs, net::NetArgs};

/// `policy …`
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Say whether URL may be reached, by which rule and who wrote it; exits with 0 or 1
    Check(Box<CheckArgs>),
    /// List the rules: of a running sandbox, or of the configuration
    Ls(ListArgs),
    /// Let a running sandbox reach HOST
    Allow(ChangeArgs),
    /// Let a running sandbox not reach HOST
    Deny(ChangeArgs),
    /// Take back what was said about HOST in a running sandbox
    Rm(ChangeArgs),
    /// Show what sandboxes reached, and what they were refused
    Log(LogArgs),
    /// Write the rules for what a run has reached
    Init(InitArgs),
}

/// `policy check`
#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Rules besides those of the configuration.
    #[command(flatten)]
    pub(crate) net: NetArgs,
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// Ask the running sandbox NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// The method of the request, where a rule speaks of methods
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What is to be reached: a URL, host:port, or a host
    pub(crate) url: String,
}

/// `policy ls`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// Ask the running sandbox NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy allow`, `deny`, `rm`
#[derive(Debug, ClapArgs)]
pub(crate) struct ChangeArgs {
    /// The running sandbox; the only one if not said
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Rules or groups, as --allow takes them
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}

/// `policy log`
#[derive(Debug, ClapArgs)]
pub(crate) struct LogArgs {
    /// Only of this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Only what was refused
    #[arg(long)]
    pub(crate) denied: bool,
    /// Write the record as it is, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy init`
#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// The run to learn from, as `bulkhead run --name RUN --net observe` called it
    #[arg(long, value_name = "RUN")]
    pub(crate) from: String,
    /// Write to the project's `.bulkhead/config.toml`, which must not be there
    #[arg(long)]
    pub(crate) write: bool,
}
