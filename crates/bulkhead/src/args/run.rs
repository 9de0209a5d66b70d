//! The flags of `run` and `plan`. They read like Docker's where Docker has them.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use bulkhead_policy::{HOME_TRIGGERS, WORKSPACE_TRIGGERS};
use bulkhead_spec::{Bytes, Cpus, Guarantee, GuestPath, Pull, Span, UnknownGuarantee};
use clap::Args as ClapArgs;

use super::{FromArgs, net::NetArgs};
use crate::{
    config::{Choice, Deadline, RuntimeName, pull},
    image::ImageText,
};

/// `run`
#[derive(Debug, Default, ClapArgs)]
#[command(override_usage = "bulkhead run [FLAGS] [--] PROGRAM [ARGS]...")]
pub(crate) struct RunArgs {
    /// The program and its room.
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// What is written about the run.
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Make a room of the run that stays; again with the same --name, join its program or start it
    /// again in the room
    #[arg(
        long,
        requires = "name",
        conflicts_with_all = ["report", "events", "dry_run"],
        help_heading = "Other"
    )]
    pub(crate) keep: bool,
    /// Whether anything runs at all.
    #[command(flatten)]
    pub(crate) dry: DryArgs,
}

/// Whether anything runs at all
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Other")]
pub(crate) struct DryArgs {
    /// Show what would be enforced and run nothing, as `bulkhead plan` does
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: write JSON
    #[arg(long, requires = "dry_run")]
    pub(crate) json: bool,
}

/// `plan`
#[derive(Debug, ClapArgs)]
#[command(override_usage = "bulkhead plan [FLAGS] [--] PROGRAM [ARGS]...")]
pub(crate) struct PlanArgs {
    /// The program and its room.
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Write JSON
    #[arg(long, help_heading = "Other")]
    pub(crate) json: bool,
}

/// A program, and the room that it runs in
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Ask {
    /// What the sandbox sees.
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Which workspace, and how.
    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,
    /// What it starts with.
    #[command(flatten)]
    pub(crate) env: EnvArgs,
    /// Ceilings.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// What may leave.
    #[command(flatten)]
    pub(crate) net: NetArgs,
    /// The walls.
    #[command(flatten)]
    pub(crate) walls: WallArgs,
    /// The caller's side of the program.
    #[command(flatten)]
    pub(crate) console: ConsoleArgs,
    /// How much Bulkhead says.
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// A name for the sandbox, unique on this host
    #[arg(long, value_name = "NAME", value_parser = sandbox_name, help_heading = "Other")]
    pub(crate) name: Option<String>,
    /// The program and its arguments, or an agent by its bare name: claude, codex, gemini, amp,
    /// copilot, opencode, qwen
    #[arg(trailing_var_arg = true, help_heading = "Arguments", value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
    /// How the program was typed.
    #[arg(skip)]
    pub(crate) typed: Typed,
}

/// How a program was typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Typed {
    /// It may be the name of an agent.
    #[default]
    Bare,
    /// Behind `--`: it is just that program.
    Exact,
}

impl Ask {
    /// Whether nobody says what runs; an image may.
    pub(crate) fn names_nothing(&self) -> bool {
        let named = self.files.image.is_some() || self.files.entrypoint.is_some();
        self.program.is_empty() && !named
    }

    /// Notes how the program was typed at the end of `words`.
    pub(super) fn typed_in(&mut self, words: &[OsString]) {
        let before = words.len().checked_sub(self.program.len() + 1);
        let last = before.and_then(|at| words.get(at));
        if last.is_some_and(|it| it == "--") {
            self.typed = Typed::Exact;
        }
    }
}

/// What the sandbox sees
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileArgs {
    /// Share a file or directory: SRC[:DST][:ro|:rw|:private]
    #[arg(short = 'v', long = "mount", visible_alias = "volume", value_name = "SRC:DST")]
    pub(crate) mounts: Vec<OsString>,
    /// An empty private directory
    #[arg(long, value_name = "PATH")]
    pub(crate) tmpfs: Vec<GuestPath>,
    /// Run in IMAGE instead of the host's own programs: a name, a path, oci:DIR, docker-archive:FILE
    /// or docker-daemon:NAME
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<ImageText>,
    /// Ask the registry for the image: missing, always or never
    #[arg(long, value_name = "WHEN", value_parser = pull)]
    pub(crate) pull: Option<Pull>,
    /// Run PROGRAM instead of the image's own entrypoint
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) entrypoint: Option<OsString>,
    /// Use the root filesystem in DIR instead of the host's own programs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["image", "entrypoint"])]
    pub(crate) rootfs: Option<PathBuf>,
    /// Start in DIR, as the sandbox sees it
    #[arg(short = 'w', long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Show the workspace's `.env` files, which look empty otherwise
    #[arg(long)]
    pub(crate) show_env_files: bool,
}

/// Which workspace, and how
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Files")]
pub(crate) struct WorkspaceArgs {
    /// Work on DIR[:ro] instead of the current directory
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<OsString>,
    /// Share no directory to work on
    #[arg(long, conflicts_with_all = ["workspace", "read_only"])]
    pub(crate) no_workspace: bool,
    /// Share the workspace read-only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let NAME in the workspace be written though the host would run it later, such as `.vscode`
    #[arg(long, value_name = "NAME", value_parser = protected_name)]
    pub(crate) unprotect: Vec<String>,
}

/// What the sandbox starts with
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Environment")]
pub(crate) struct EnvArgs {
    /// Set a variable, or copy it from here: KEY[=VALUE]
    #[arg(short = 'e', long = "env", value_name = "KEY[=VALUE]")]
    pub(crate) variables: Vec<OsString>,
    /// Set the variables in FILE, one KEY=VALUE a line
    #[arg(id = "env_file", long = "env-file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Ceilings
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Limits (what is asked for is held, or nothing runs)")]
pub(crate) struct LimitArgs {
    /// Memory, without swap
    #[arg(short = 'm', long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Processors that may be kept busy
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<Cpus>,
    /// Live processes and threads
    #[arg(long, visible_alias = "pids-limit", value_name = "NUMBER")]
    pub(crate) pids: Option<u32>,
    /// What is written outside the workspace
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<Bytes>,
    /// Files and directories that are made outside the workspace
    #[arg(long, value_name = "NUMBER")]
    pub(crate) inodes: Option<u64>,
    /// Processor time of all programs together
    #[arg(long, value_name = "TIME")]
    pub(crate) cpu_time: Option<Span>,
    /// How long the program may run, or `none`
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Deadline>,
    /// How long it may tidy up after it was asked to stop
    #[arg(long, value_name = "TIME")]
    pub(crate) kill_after: Option<Span>,
    /// What it may print
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<Bytes>,
    /// Open files of one process
    #[arg(long, value_name = "NUMBER")]
    pub(crate) files: Option<u32>,
}

/// The walls
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Walls")]
pub(crate) struct WallArgs {
    /// Who builds the sandbox: auto, native, docker, podman or none
    #[arg(long, visible_alias = "sandbox", value_name = "BACKEND")]
    pub(crate) backend: Option<Choice>,
    /// What a container daemon starts it with, such as runsc (gVisor)
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<RuntimeName>,
    /// Run without any wall, as --backend none does
    #[arg(long, conflicts_with = "backend")]
    pub(crate) no_sandbox: bool,
    /// Run nothing unless GUARANTEE (or `all`) is upheld
    #[arg(long, value_name = "GUARANTEE")]
    pub(crate) require: Vec<Required>,
    /// Let debuggers work inside
    #[arg(long)]
    pub(crate) debug_syscalls: bool,
}

/// The caller's side of the program
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Console")]
pub(crate) struct ConsoleArgs {
    /// Pass stdin on even if it is a terminal
    #[arg(short = 'i', long)]
    pub(crate) interactive: bool,
    /// Run the program on a terminal of its own
    #[arg(short = 't', long)]
    pub(crate) tty: bool,
}

/// How much Bulkhead says
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Other")]
pub(crate) struct TalkArgs {
    /// Say nothing but errors
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what is decided
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// What is written about the run
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Record")]
pub(crate) struct RecordArgs {
    /// Write how it ended to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write what happens to FILE or fd:N, one JSON object a line
    #[arg(long, value_name = "FILE|fd:N")]
    pub(crate) events: Option<OsString>,
}

/// One guarantee, or all.
#[derive(Clone, Debug)]
pub(crate) struct Required(pub(crate) Vec<Guarantee>);

impl FromStr for Required {
    type Err = UnknownGuarantee;

    fn from_str(name: &str) -> Result<Self, UnknownGuarantee> {
        if name == "all" {
            return Ok(Self(Guarantee::ALL.to_vec()));
        }
        name.parse().map(|guarantee| Self(vec![guarantee]))
    }
}

/// A name that can be a directory's and is harmless on a terminal.
fn sandbox_name(text: &str) -> Result<String, String> {
    let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if text.is_empty()
        || 64 < text.len()
        || !text.chars().all(fine)
        || text.starts_with(['.', '-'])
    {
        return Err("a name has up to 64 letters, digits, `-`, `_` and `.`, and starts with \
                    a letter or a digit"
            .to_owned());
    }
    Ok(text.to_owned())
}

/// A name that spares something: one that spares nothing is misspelt, and an empty one would spare
/// all.
fn protected_name(text: &str) -> Result<String, String> {
    let mut parts = Path::new(text).components().peekable();
    let plain =
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
    let known = || [".git"].iter().chain(WORKSPACE_TRIGGERS).chain(HOME_TRIGGERS);
    if plain && known().any(|it| Path::new(it).starts_with(text)) {
        return Ok(text.to_owned());
    }
    let known: Vec<&str> = known().copied().collect();
    Err(format!("nothing of that name is protected; protected are {}", known.join(", ")))
}
