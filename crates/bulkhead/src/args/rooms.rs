//! The flags of the verbs about rooms. They read like Docker's where Docker has them.

use std::{ffi::OsString, path::PathBuf};

use bulkhead_spec::{Bytes, Span};
use clap::{Args as ClapArgs, ValueEnum};

use super::run::{Ask, ConsoleArgs, EnvArgs};

/// `create`
#[derive(Debug, ClapArgs)]
#[command(override_usage = "bulkhead create [FLAGS] [--] [PROGRAM [ARGS]...]")]
pub(crate) struct CreateArgs {
    /// The room, and a program to start in it right away.
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// How long it lives.
    #[command(flatten)]
    pub(crate) life: LifeArgs,
    /// Write JSON
    #[arg(long, help_heading = "Other")]
    pub(crate) json: bool,
}

/// How long a room lives, and what is said about it
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Life")]
pub(crate) struct LifeArgs {
    /// End the room after TIME
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Span>,
    /// End the room when nobody has used it and nothing has run in it for TIME
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Span>,
    /// What happens when its time is over
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    pub(crate) on_timeout: OnTimeout,
    /// Keep the disk of the room when it ends: `bulkhead start` starts it again
    #[arg(long)]
    pub(crate) persist: bool,
    /// Say something about the room, to find it by
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
}

/// What happens to a room whose time is over.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnTimeout {
    /// It ends
    Kill,
    /// It is frozen until somebody wants it again
    Pause,
}

/// `exec`
#[derive(Debug, ClapArgs)]
#[command(override_usage = "bulkhead exec [FLAGS] ROOM [--] PROGRAM [ARGS]...")]
pub(crate) struct ExecArgs {
    /// The caller's side of the program.
    #[command(flatten)]
    pub(crate) console: ConsoleArgs,
    /// What it starts with.
    #[command(flatten)]
    pub(crate) env: EnvArgs,
    /// Do not stay with the program; print its number
    #[arg(short = 'd', long)]
    pub(crate) detach: bool,
    /// Start in DIR, as the room sees it
    #[arg(short = 'w', long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// How long the program may run
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Span>,
    /// Call the program TAG, to find it by in `logs` and `attach`
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// `cp`
#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "bulkhead cp [FLAGS] ROOM:PATH PATH|-\n       bulkhead cp [FLAGS] PATH|- ROOM:PATH"
)]
pub(crate) struct CpArgs {
    /// Stop when more than SIZE has come out of the room
    #[arg(long, value_name = "SIZE", default_value = "64g")]
    pub(crate) max_size: Bytes,
    /// Stop when more than COUNT files and directories have come out of the room
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub(crate) max_files: u64,
    /// What to copy: ROOM:PATH, or a path of the host, or `-` for stdin
    #[arg(value_name = "FROM")]
    pub(crate) from: OsString,
    /// Where to: ROOM:PATH, or a path of the host, or `-` for stdout
    #[arg(value_name = "TO")]
    pub(crate) to: OsString,
}

/// `port`
#[derive(Debug, ClapArgs)]
pub(crate) struct PortArgs {
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
    /// The port inside, and the one on 127.0.0.1; any free one if that is 0, the same if not said
    #[arg(value_name = "PORT[:HOSTPORT]", value_parser = port_pair)]
    pub(crate) port: PortPair,
}

/// A port inside and the one outside that leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPair {
    /// In the room.
    pub(crate) inside: u16,
    /// On the host; any free one if 0.
    pub(crate) outside: u16,
}

/// `ls`
#[derive(Debug, ClapArgs)]
pub(crate) struct LsArgs {
    /// Also rooms that have ended
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// Only rooms with this label: KEY or KEY=VALUE
    #[arg(long = "label", visible_alias = "filter", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<String>,
    /// How they are written.
    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// How a list is written
#[derive(Debug, ClapArgs)]
pub(crate) struct FormArgs {
    /// Only names
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Write JSON
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

/// A room, and how to write about it
#[derive(Debug, ClapArgs)]
pub(crate) struct OneArgs {
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Rooms
#[derive(Debug, ClapArgs)]
pub(crate) struct RoomsArgs {
    /// Names or ids of rooms, or the beginnings of some
    #[arg(required = true, value_name = "ROOM")]
    pub(crate) rooms: Vec<String>,
}

/// `stats`
#[derive(Debug, ClapArgs)]
pub(crate) struct StatsArgs {
    /// Names or ids of rooms; all if not said
    #[arg(value_name = "ROOM")]
    pub(crate) rooms: Vec<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `logs`
#[derive(Debug, ClapArgs)]
pub(crate) struct LogsArgs {
    /// Go on until the program ends
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// Of this program, by its number or its tag; the last one if not said
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<String>,
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
}

/// `attach`
#[derive(Debug, ClapArgs)]
pub(crate) struct AttachArgs {
    /// This program, by its number or its tag; the last one if not said
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<String>,
    /// Name or id of the room, or the beginning of one
    pub(crate) room: String,
}

/// `stop`
#[derive(Debug, ClapArgs)]
pub(crate) struct StopArgs {
    /// How long its programs may tidy up
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s")]
    pub(crate) time: Span,
    /// Names or ids of rooms, or the beginnings of some
    #[arg(required = true, value_name = "ROOM")]
    pub(crate) rooms: Vec<String>,
}

/// `rm`
#[derive(Debug, ClapArgs)]
pub(crate) struct RmArgs {
    /// Also if it lives: it is ended first
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Names or ids of rooms, or the beginnings of some
    #[arg(required = true, value_name = "ROOM")]
    pub(crate) rooms: Vec<String>,
}

/// `prune`
#[derive(Debug, ClapArgs)]
pub(crate) struct PruneArgs {
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `KEY=VALUE`
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | '/');
    if key.is_empty() || 128 < key.len() || 1024 < value.len() || !key.chars().all(fine) {
        return Err(
            "a label is KEY=VALUE; a key has letters, digits, `-`, `_`, `.` and `/`".to_owned()
        );
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// `PORT[:HOSTPORT]`
fn port_pair(text: &str) -> Result<PortPair, String> {
    let (inside, outside) = text.split_once(':').unwrap_or((text, text));
    let number = |it: &str| it.parse::<u16>().ok();
    match (number(inside), number(outside)) {
        (Some(inside @ 1..), Some(outside)) => Ok(PortPair { inside, outside }),
        (Some(0) | None, _) | (_, None) => {
            Err("a port is a number from 1 to 65535, with `:HOSTPORT` after it or not"
                .to_owned())
        }
    }
}
