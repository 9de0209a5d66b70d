//! The command line: parsed here, understood elsewhere.

pub(crate) mod checkpoints;
pub(crate) mod image;
pub(crate) mod net;
mod plain;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod rooms;
pub(crate) mod run;
pub(crate) mod serve;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    parser::ValueSource,
};

use self::policy::PolicyVerb;
use self::pool::{PoolVerb, UpdateArgs};
use self::{
    checkpoints::{CheckpointVerb, ForkArgs},
    image::ImageVerb,
    rooms::{
        AttachArgs, CpArgs, CreateArgs, ExecArgs, LogsArgs, LsArgs, OneArgs, PortArgs,
        PruneArgs, RmArgs, RoomsArgs, StatsArgs, StopArgs,
    },
    run::{PlanArgs, RunArgs},
    serve::{KeyVerb, ServeArgs},
};
use crate::printer::Format;

/// Run AI agents and untrusted code behind walls.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, about, disable_help_subcommand = true)]
#[command(max_term_width = 100)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Run a program in a sandbox
#[derive(Debug, Parser)]
#[command(name = "run", bin_name = "bulkhead run", max_term_width = 100)]
struct RunAlone {
    #[command(flatten)]
    args: RunArgs,
}

impl Args {
    /// Reads the command line.
    ///
    /// `run` is read without the other verbs: to describe all their flags takes longer than to
    /// read those that are there, and its start is what people wait for. What is said most often
    /// needs no description at all.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        if words.first().is_some_and(|verb| verb == "run") {
            let mut args = match plain::read(words.iter().skip(1).cloned()) {
                Some(args) => args,
                None => RunAlone::try_parse_from(&words)?.args,
            };
            args.ask.typed_in(&words);
            if args.ask.names_nothing() {
                return Err(without_program(RunAlone::command()));
            }
            return Ok(Self { verb: Verb::Run(Box::new(args)) });
        }
        let matches = Self::command_line().try_get_matches()?;
        if let Some(error) = foreign(&matches) {
            return Err(error);
        }
        let mut args = Self::from_arg_matches(&matches)?;
        if let Verb::Serve(serve) = &mut args.verb {
            // A room belongs to whoever makes it over the door, not to where the server began.
            serve.ask.workspace.no_workspace = true;
        }
        if let Verb::Pool(PoolVerb::Fill(fill)) = &mut args.verb {
            fill.ask.workspace.no_workspace = true;
        }
        if let Verb::Create(create) = &mut args.verb {
            create.ask.typed_in(&words);
        }
        if let Verb::Plan(plan) = &mut args.verb {
            plan.ask.typed_in(&words);
        }
        if let Verb::Plan(plan) = &args.verb
            && plan.ask.names_nothing()
        {
            let mut all = Self::command();
            all.build();
            let plan = all.find_subcommand("plan").cloned().unwrap_or(all);
            return Err(without_program(plan));
        }
        Ok(args)
    }
}

/// Flags of a room that mean nothing to a verb which has no program, no terminal or no directory of
/// its own: they are not shown, and refused.
const FOREIGN: [(&[&str], &[&str]); 3] = [
    (&["create"], &["interactive", "tty"]),
    (&["serve"], NO_PROGRAM),
    (&["pool", "fill"], NO_PROGRAM),
];

const NO_PROGRAM: &[&str] = &[
    "interactive",
    "tty",
    "name",
    "program",
    "entrypoint",
    "workdir",
    "kill_after",
    "show_env_files",
    "workspace",
    "no_workspace",
    "read_only",
    "unprotect",
];

impl Args {
    /// The command line, each verb with the flags that it really has.
    pub(crate) fn command_line() -> clap::Command {
        FOREIGN
            .into_iter()
            .fold(Self::command(), |all, (path, flags)| without(all, path, flags))
    }
}

/// `command`, and at the end of `path` a verb that does not show `flags`.
fn without(
    command: clap::Command,
    path: &'static [&'static str],
    flags: &'static [&'static str],
) -> clap::Command {
    if let Some((verb, rest)) = path.split_first() {
        return command.mut_subcommand(verb, |it| without(it, rest, flags));
    }
    command.mut_args(|arg| {
        let foreign = flags.contains(&arg.get_id().as_str());
        if foreign { arg.hide(true) } else { arg }
    })
}

/// What was said to a verb that has no such flag.
fn foreign(matches: &clap::ArgMatches) -> Option<clap::Error> {
    FOREIGN.into_iter().find_map(|(path, flags)| {
        let said = path.iter().try_fold(matches, |it, verb| it.subcommand_matches(verb))?;
        let by_hand = |it: &&&str| said.value_source(it) == Some(ValueSource::CommandLine);
        let flag = flags.iter().find(by_hand)?;
        let shown = match *flag {
            "program" => "a program".to_owned(),
            flag => format!("--{}", flag.replace('_', "-")),
        };
        let text = format!("`bulkhead {}` does not take {shown}", path.join(" "));
        Some(Args::command_line().error(clap::error::ErrorKind::UnknownArgument, text))
    })
}

/// A room may be empty; a run is about a program.
fn without_program(mut command: clap::Command) -> clap::Error {
    let missing = "the following required arguments were not provided:\n  <PROGRAM>...";
    command.error(clap::error::ErrorKind::MissingRequiredArgument, missing)
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a program in a sandbox
    Run(Box<RunArgs>),
    /// Show what would be enforced for a program, and by what
    Plan(Box<PlanArgs>),
    /// Make a room: a sandbox that stays
    Create(Box<CreateArgs>),
    /// Run a program in a room
    Exec(Box<ExecArgs>),
    /// Copy files and directories into a room or out of it
    Cp(CpArgs),
    /// Publish a port of a room on 127.0.0.1, until this is interrupted
    Port(PortArgs),
    /// List the rooms
    #[command(visible_alias = "ps")]
    Ls(LsArgs),
    /// Show everything about a room, as JSON
    Inspect(OneArgs),
    /// Show what a program of a room said
    Logs(LogsArgs),
    /// Join a program of a room
    Attach(AttachArgs),
    /// Show what rooms use
    Stats(StatsArgs),
    /// Change variables, limits, rules or the time of rooms that live
    Update(Box<UpdateArgs>),
    /// Make rooms ahead, so that nobody waits for one
    #[command(subcommand)]
    Pool(PoolVerb),
    /// Freeze rooms: no processor is used, memory is kept
    Pause(RoomsArgs),
    /// Let frozen rooms go on
    #[command(visible_alias = "unpause")]
    Resume(RoomsArgs),
    /// Start rooms again that have ended and were made with --persist
    Start(RoomsArgs),
    /// Keep the disks of rooms, and make rooms of them
    #[command(subcommand)]
    Checkpoint(CheckpointVerb),
    /// Make rooms that begin where a room is
    Fork(ForkArgs),
    /// End rooms; their programs may tidy up
    Stop(StopArgs),
    /// End rooms, now
    Kill(RoomsArgs),
    /// Forget rooms that have ended
    Rm(RmArgs),
    /// Wait until rooms have ended
    Wait(RoomsArgs),
    /// Forget every room that has ended, but those made with --persist
    Prune(PruneArgs),
    /// Serve rooms over HTTP, by our own API and by E2B's
    Serve(Box<ServeArgs>),
    /// Make and remove keys to the server
    #[command(subcommand)]
    Key(KeyVerb),
    /// Hold a room
    #[command(hide = true)]
    Shim,
    /// Show what this host can enforce, and what to type to get the rest
    Doctor(JsonArgs),
    /// Make and look after images for sandboxes
    #[command(subcommand)]
    Image(ImageVerb),
    /// Show and change what may leave sandboxes
    #[command(subcommand)]
    Policy(PolicyVerb),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Let a project's configuration widen its sandbox, or its Dockerfile be built
    Trust(TrustArgs),
    /// Explain an error code
    Explain(ExplainArgs),
    /// Write a completion script for a shell to stdout
    Completion(CompletionArgs),
    /// Show the version
    Version(JsonArgs),
}

impl Verb {
    /// The name of a verb that runs or decides something on this machine and nowhere else, so that
    /// naming a server makes no sense.
    pub(crate) fn of_this_machine(&self) -> Option<&'static str> {
        let names = [
            ("run", matches!(self, Self::Run(_))),
            ("plan", matches!(self, Self::Plan(_))),
            ("image", matches!(self, Self::Image(_))),
            ("policy", matches!(self, Self::Policy(_))),
            ("start", matches!(self, Self::Start(_))),
        ];
        names.into_iter().find_map(|(name, it)| it.then_some(name))
    }

    /// The exit code of a failure that has none of its own.
    pub(crate) fn failure_exit(&self) -> u8 {
        match self {
            Self::Run(_)
            | Self::Plan(_)
            | Self::Create(_)
            | Self::Exec(_)
            | Self::Attach(_)
            | Self::Serve(_)
            | Self::Shim => 125,
            Self::Doctor(_)
            | Self::Image(_)
            | Self::Config(_)
            | Self::Policy(_)
            | Self::Trust(_)
            | Self::Explain(_)
            | Self::Completion(_)
            | Self::Version(_)
            | Self::Ls(_)
            | Self::Cp(_)
            | Self::Port(_)
            | Self::Inspect(_)
            | Self::Logs(_)
            | Self::Stats(_)
            | Self::Update(_)
            | Self::Pool(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Start(_)
            | Self::Checkpoint(_)
            | Self::Fork(_)
            | Self::Stop(_)
            | Self::Kill(_)
            | Self::Rm(_)
            | Self::Wait(_)
            | Self::Prune(_)
            | Self::Key(_) => 1,
        }
    }

    /// How its failures are written.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Image(verb) => verb.format(),
            Self::Config(ConfigVerb::Show(args)) => args.json.into(),
            Self::Config(ConfigVerb::Path(args)) => args.json.into(),
            Self::Run(args) => args.dry.json.into(),
            Self::Plan(args) => args.json.into(),
            Self::Create(args) => args.json.into(),
            Self::Ls(args) => args.form.json.into(),
            Self::Checkpoint(CheckpointVerb::Create(args)) => args.json.into(),
            Self::Checkpoint(CheckpointVerb::Ls(args)) => args.json.into(),
            Self::Fork(args) => args.json.into(),
            Self::Inspect(args) => args.json.into(),
            Self::Stats(args) => args.json.into(),
            Self::Pool(verb) => verb.format(),
            Self::Doctor(args) | Self::Version(args) => args.json.into(),
            Self::Policy(PolicyVerb::Check(args)) => args.json.into(),
            Self::Policy(PolicyVerb::Ls(args)) => args.json.into(),
            Self::Policy(
                PolicyVerb::Allow(_)
                | PolicyVerb::Deny(_)
                | PolicyVerb::Rm(_)
                | PolicyVerb::Log(_)
                | PolicyVerb::Init(_),
            )
            | Self::Config(ConfigVerb::Get(_) | ConfigVerb::Schema)
            | Self::Trust(_)
            | Self::Explain(_)
            | Self::Completion(_)
            | Self::Exec(_)
            | Self::Cp(_)
            | Self::Port(_)
            | Self::Logs(_)
            | Self::Attach(_)
            | Self::Update(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Start(_)
            | Self::Checkpoint(CheckpointVerb::Restore(_) | CheckpointVerb::Rm(_))
            | Self::Stop(_)
            | Self::Kill(_)
            | Self::Rm(_)
            | Self::Wait(_)
            | Self::Prune(_)
            | Self::Serve(_)
            | Self::Key(_)
            | Self::Shim => Format::Text,
        }
    }
}

/// `doctor`, `version`
#[derive(Debug, ClapArgs)]
pub(crate) struct JsonArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `config …`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Show every value that holds
    Show(ShowArgs),
    /// Show one value
    Get(GetArgs),
    /// Show the files that are read and the directories that are used
    Path(PathArgs),
    /// Write the JSON Schema of a configuration file to stdout
    Schema,
}

/// Where configuration is read from
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct FromArgs {
    /// Read FILE instead of the project's `.bulkhead/config.toml`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `config show`
#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// Say where each value came from
    #[arg(long)]
    pub(crate) origin: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `config get`
#[derive(Debug, ClapArgs)]
pub(crate) struct GetArgs {
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// The key, such as `limits.memory`
    pub(crate) key: String,
}

/// `config path`
#[derive(Debug, ClapArgs)]
pub(crate) struct PathArgs {
    /// Where configuration is read from.
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `trust`
#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// Show the files that are trusted
    #[arg(long, conflicts_with_all = ["revoke", "file"])]
    pub(crate) list: bool,
    /// Trust the file no more
    #[arg(long)]
    pub(crate) revoke: bool,
    /// The file; that of the current project if not said
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// `explain`
#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// A code such as `BH-E020`; all of them if not said
    pub(crate) code: Option<String>,
}

/// `completion`
#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}
