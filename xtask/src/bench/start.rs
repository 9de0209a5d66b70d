//! `bench start`: from the start of a command to its end, for Bulkhead and its peers.

mod race;
mod standings;

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::bench::CommonArgs;
use crate::bench::contestants::{Field, Name};
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::shuffle::Shuffle;
use crate::bench::start::race::Race;
use crate::bench::start::standings::Standings;
use crate::trouble::Trouble;

/// The p50 of Bulkhead over that of bwrap, as root.
pub(super) const ROOT_TO_BWRAP: &str = "start.bwrap.root";
/// The same, both as an ordinary user.
pub(super) const USER_TO_BWRAP: &str = "start.bwrap.user";
/// The p50 of `docker run` over that of Bulkhead as root.
pub(super) const DOCKER_TO_ROOT: &str = "start.docker.root";
/// The p50 of `docker run` over that of Bulkhead as an ordinary user.
pub(super) const DOCKER_TO_USER: &str = "start.docker.user";

const JUDGES: &[&str] = &[ROOT_TO_BWRAP, USER_TO_BWRAP, DOCKER_TO_ROOT, DOCKER_TO_USER];

#[derive(Args)]
pub(crate) struct StartArgs {
    /// How often each contestant starts.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How often those start that take hundreds of milliseconds.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    slow_runs: u32,
    /// Only these contestants, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_enum)]
    only: Vec<Name>,
    /// The ordinary user of the `-user` contestants.
    #[arg(long, default_value = "nobody", value_name = "NAME")]
    user: String,
    /// Repeat the order of another run.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) fn run(args: &StartArgs) -> Result<ExitCode, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new(
            "`bench start` compares root and an ordinary user: run it as root",
        ));
    }
    let everybody = Name::value_variants().iter().copied();
    let chosen: Vec<Name> =
        everybody.filter(|it| args.only.is_empty() || args.only.contains(it)).collect();
    let machine = Machine::before_the_run();
    let field = Field::prepare(&chosen, args.common.bulkhead(), &args.user)?;
    let seed = args.seed.unwrap_or_else(Shuffle::seed_from_clock);
    let mut race = Race::line_up(&field, &chosen)?;
    race.warm_up()?;
    race.run(args.runs, args.slow_runs.min(args.runs), seed)?;
    let standings = Standings::of(race.finish(), machine.after_the_run(), seed);
    let report = Report {
        section: "start",
        text: standings.to_string(),
        measured: standings.measured(),
        data: &standings,
        judges: JUDGES,
    };
    report.deliver(&args.common)
}
