//! The flags of the verbs about checkpoints.

use clap::{Args as ClapArgs, Subcommand};

use super::rooms::FormArgs;

/// `checkpoint …`
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointVerb {
    /// Keep what is on the disk of a room; the room stands still meanwhile
    Create(CheckpointArgs),
    /// List the checkpoints
    Ls(FormArgs),
    /// Make a room of a checkpoint, in the place of the room that it was taken of or beside it
    Restore(RestoreArgs),
    /// Remove checkpoints; rooms that were made of them stay
    Rm(CheckpointsArgs),
}

/// `checkpoint create`
#[derive(Debug, ClapArgs)]
pub(crate) struct CheckpointArgs {
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
    /// What to call the checkpoint; the name of the room with a number if not said
    pub(crate) name: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `checkpoint restore`
#[derive(Debug, ClapArgs)]
pub(crate) struct RestoreArgs {
    /// The checkpoint
    pub(crate) checkpoint: String,
    /// Make a new room of this name, and leave the one alone that the checkpoint was taken of
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Also if the room runs: it is ended first
    #[arg(short = 'f', long, conflicts_with = "name")]
    pub(crate) force: bool,
}

/// `checkpoint rm`
#[derive(Debug, ClapArgs)]
pub(crate) struct CheckpointsArgs {
    /// Names of checkpoints
    #[arg(required = true, value_name = "CHECKPOINT")]
    pub(crate) checkpoints: Vec<String>,
}

/// `fork`
#[derive(Debug, ClapArgs)]
pub(crate) struct ForkArgs {
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
    /// How many rooms to make of it
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// Call them NAME-1, NAME-2, …; by the name of the room if not said
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}
