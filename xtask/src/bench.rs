//! Figures: how fast a sandbox starts, what work costs inside, what an idle one weighs.
//!
//! Each verb measures Bulkhead and what it is compared with in one run, prints a table, and can
//! hold the result against SPECIFICATION.md (`--check`) or write it there (`--write`).

mod bundle;
mod cgroup_parent;
mod container;
mod contestants;
mod density;
mod dockerd;
mod egress;
mod machine;
mod report;
mod rooms;
mod server;
mod shuffle;
mod spawner;
mod start;
pub(crate) mod stats;
pub(crate) mod table;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::programs;
use crate::trouble::Trouble;

/// What SPECIFICATION.md must promise, in its order; each verb fills in its own.
#[cfg(test)]
pub(crate) const PROMISED: [&str; 32] = [
    start::ROOT_TO_BWRAP,
    start::USER_TO_BWRAP,
    start::DOCKER_TO_ROOT,
    start::DOCKER_TO_USER,
    work::WORK_TO_HOST,
    density::IDLE_MEMORY,
    density::TIME_TO_END,
    density::LEFT_BEHIND,
    container::RUN_TO_DOCKER,
    container::EXEC_TO_DOCKER,
    container::CROWD_TO_DOCKER,
    server::FIRST_OUTPUT,
    server::WARM,
    server::EXEC,
    server::CONTEXT,
    server::CREATES,
    server::DOWNLOAD,
    egress::TO_RELAY,
    egress::TO_PROXY,
    egress::TUNNELLED,
    egress::TERMINATED,
    egress::CROWD,
    egress::MEMORY,
    egress::SETUP,
    rooms::EXEC_TO_FORK,
    rooms::EXEC_TO_DOCKER,
    rooms::WARM_MEDIAN,
    rooms::WARM_TAIL,
    rooms::FORKS,
    rooms::IDLE_MEMORY,
    rooms::TIME_TO_END,
    rooms::LEFT_BEHIND,
];

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// The time from start to end of `/bin/true`, side by side with other sandboxes.
    Start(start::StartArgs),
    /// The same real work on the host and inside.
    Work(work::WorkArgs),
    /// Many idle sandboxes at once: memory, time to end them, what is left.
    Density(density::DensityArgs),
    /// The same program by Docker alone, by Bulkhead on Docker, natively and without walls.
    Container(container::ContainerArgs),
    /// Rooms over HTTP, through E2B's Python SDK: create, exec, code, files.
    Server(server::ServerArgs),
    /// The way out: throughput, latency, memory and set-up, beside relays and proxies.
    Egress(egress::EgressArgs),
    /// Fetches what it reads from stdin and says how long it took; used by `egress`.
    #[command(hide = true)]
    EgressClient,
    /// Rooms that stay: programs in them, rooms made ahead, freezing, many at once.
    Rooms(rooms::RoomsArgs),
    /// Starts what it reads from stdin and says how long it took; used by `start`.
    #[command(hide = true)]
    Spawner,
}

/// What every verb is told.
#[derive(Args)]
pub(crate) struct CommonArgs {
    /// The program to measure [default: the static release build in `target`].
    #[arg(long, value_name = "PATH")]
    bulkhead: Option<PathBuf>,
    /// Write the result as JSON too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 1 if a promise of SPECIFICATION.md is missed or could not be measured.
    #[arg(long)]
    check: bool,
    /// Write the figures into SPECIFICATION.md.
    #[arg(long)]
    write: bool,
}

impl CommonArgs {
    /// Where the program under test is, or what to type to get it.
    fn bulkhead(&self) -> Result<PathBuf, Trouble> {
        let built = "target/x86_64-unknown-linux-musl/release/bulkhead";
        let path = match &self.bulkhead {
            Some(path) => path.clone(),
            None => programs::repository().join(built),
        };
        path.canonicalize().map_err(|_| {
            Trouble::new(format!(
                "there is no `{}`; build it with `cargo build --release --target \
                 x86_64-unknown-linux-musl -p bulkhead`",
                path.display()
            ))
        })
    }

    fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }
}

/// Runs a verb; the exit code says whether what it had to hold was held.
pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Trouble> {
    match command {
        BenchCommand::Start(args) => start::run(&args),
        BenchCommand::Work(args) => work::run(&args),
        BenchCommand::Density(args) => density::run(&args),
        BenchCommand::Container(args) => container::run(&args),
        BenchCommand::Server(args) => server::run(&args),
        BenchCommand::Egress(args) => egress::run(&args),
        BenchCommand::EgressClient => egress::client::serve().map(|()| ExitCode::SUCCESS),
        BenchCommand::Rooms(args) => rooms::run(&args),
        BenchCommand::Spawner => spawner::serve().map(|()| ExitCode::SUCCESS),
    }
}
