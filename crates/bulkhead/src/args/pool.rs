//! The flags of `update` and `pool`.

use bulkhead_spec::{Bytes, Cpus, Span};
use clap::{Args as ClapArgs, Subcommand};

use super::{
    net::{allowed, denied},
    rooms::{FormArgs, OnTimeout, label},
    run::{Ask, EnvArgs},
};
use crate::printer::Format;

/// `update`
#[derive(Debug, ClapArgs)]
pub(crate) struct UpdateArgs {
    /// What programs start with from now on.
    #[command(flatten)]
    pub(crate) env: EnvArgs,
    /// Let programs start without this variable
    #[arg(long, value_name = "KEY", help_heading = "Environment")]
    pub(crate) unset: Vec<String>,
    /// Memory, without swap
    #[arg(short = 'm', long, value_name = "SIZE", help_heading = "Limits")]
    pub(crate) memory: Option<Bytes>,
    /// Processors that may be kept busy
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    pub(crate) cpus: Option<Cpus>,
    /// Live processes and threads
    #[arg(long, visible_alias = "pids-limit", value_name = "NUMBER", help_heading = "Limits")]
    pub(crate) pids: Option<u32>,
    /// Let HOST be reached too: a rule or a group, as with `create`
    #[arg(long, value_name = "HOST", value_parser = allowed, help_heading = "Network")]
    pub(crate) allow: Vec<String>,
    /// Let HOST not be reached any more, whatever else allows it
    #[arg(long, value_name = "HOST", value_parser = denied, help_heading = "Network")]
    pub(crate) deny: Vec<String>,
    /// End the room TIME from now
    #[arg(long, value_name = "TIME", help_heading = "Life")]
    pub(crate) ttl: Option<Span>,
    /// End the room when nobody has used it and nothing has run in it for TIME
    #[arg(long, value_name = "TIME", help_heading = "Life")]
    pub(crate) idle_timeout: Option<Span>,
    /// What happens when its time is over
    #[arg(long, value_name = "WHAT", help_heading = "Life")]
    pub(crate) on_timeout: Option<OnTimeout>,
    /// Say something about the room, to find it by
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, help_heading = "Life")]
    pub(crate) labels: Vec<(String, String)>,
    /// Names or ids of rooms, or the beginnings of some
    #[arg(required = true, value_name = "ROOM")]
    pub(crate) rooms: Vec<String>,
}

/// `pool …`
#[derive(Debug, Subcommand)]
pub(crate) enum PoolVerb {
    /// Make rooms ahead for whoever creates one with the same flags and --no-workspace
    Fill(Box<FillArgs>),
    /// List the rooms that wait
    Ls(FormArgs),
    /// End the rooms that wait
    Drain,
}

impl PoolVerb {
    /// How its failures are written.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Ls(args) => args.json.into(),
            Self::Fill(_) | Self::Drain => Format::Text,
        }
    }
}

/// `pool fill`
#[derive(Debug, ClapArgs)]
#[command(override_usage = "bulkhead pool fill [FLAGS]")]
pub(crate) struct FillArgs {
    /// How many wait when this is done; `pool.size` of the configuration if not said
    #[arg(long, value_name = "NUMBER", help_heading = "Other")]
    pub(crate) size: Option<u32>,
    /// What the rooms are like.
    #[command(flatten)]
    pub(crate) ask: Ask,
}
