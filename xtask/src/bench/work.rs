//! `bench work`: the same real work on the host and inside, turn by turn.

mod jobs;
mod room;

use std::fmt;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::bench::CommonArgs;
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::shuffle::Shuffle;
use crate::bench::stats::{self, Summary};
use crate::bench::table::Table;
use crate::bench::work::jobs::Job;
use crate::bench::work::room::{Cost, Room, Side};
use crate::print;
use crate::specification::Measured;
use crate::trouble::Trouble;

/// The time of real work inside over that on the host: the geometric mean over all jobs.
pub(super) const WORK_TO_HOST: &str = "work.host";

#[derive(Args)]
pub(crate) struct WorkArgs {
    /// How often each job is done on each side.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only these jobs, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "JOB", value_parser = jobs::NAMES)]
    only: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Serialize)]
struct Results {
    machine: Machine,
    jobs: Vec<Compared>,
    /// Over the jobs that ran on both sides; none if one of them did not.
    geometric_mean: Option<f64>,
}

/// One job on both sides.
#[derive(Serialize)]
struct Compared {
    name: &'static str,
    host: Option<Summary>,
    inside: Option<Summary>,
    host_cpu: Option<Summary>,
    inside_cpu: Option<Summary>,
    /// Why there is no ratio.
    note: String,
}

pub(crate) fn run(args: &WorkArgs) -> Result<ExitCode, Trouble> {
    let machine = Machine::before_the_run();
    let room = Room::open(args.common.bulkhead()?)?;
    let chosen = jobs::all()
        .into_iter()
        .filter(|job| args.only.is_empty() || args.only.iter().any(|it| it == job.name));
    let mut order = Shuffle::seeded(Shuffle::seed_from_clock());
    let mut jobs = Vec::new();
    for job in chosen {
        print::progress(&format!("{}: {} runs on each side", job.name, args.runs));
        jobs.push(compare(&room, &job, args.runs, &mut order)?);
    }
    let ratios: Option<Vec<f64>> = jobs.iter().map(Compared::ratio).collect();
    let geometric_mean = ratios.and_then(|it| stats::geometric_mean(&it));
    let results = Results { machine: machine.after_the_run(), jobs, geometric_mean };
    // The promise is about all jobs: a selection proves nothing about it.
    let whole = geometric_mean.filter(|_| args.only.is_empty());
    let report = Report {
        section: "work",
        text: results.to_string(),
        measured: whole
            .map(|value| Measured { key: WORK_TO_HOST, value })
            .into_iter()
            .collect(),
        data: &results,
        judges: &[WORK_TO_HOST],
    };
    report.deliver(&args.common)
}

/// Does a job on both sides, `runs` times each, with a coin for who goes first.
fn compare(
    room: &Room,
    job: &Job,
    runs: u32,
    order: &mut Shuffle,
) -> Result<Compared, Trouble> {
    let mut host: Vec<Cost> = Vec::new();
    let mut inside: Vec<Cost> = Vec::new();
    let mut note = String::new();
    // The first round fills caches and shows whether the job works at all.
    for round in 0..=runs {
        let mut sides = [Side::Host, Side::Inside];
        order.shuffle(&mut sides);
        for side in sides {
            match room.perform(job, side)? {
                Ok(_) if round == 0 => {}
                Ok(cost) => match side {
                    Side::Host => host.push(cost),
                    Side::Inside => inside.push(cost),
                },
                Err(reason) => note = format!("fails {side}: {reason}"),
            }
        }
        if !note.is_empty() {
            print::progress(&format!("{} {note}", job.name));
            break;
        }
    }
    let wall =
        |costs: &[Cost]| Summary::of(&costs.iter().map(|it| it.wall).collect::<Vec<_>>());
    let cpu = |costs: &[Cost]| Summary::of(&costs.iter().map(|it| it.cpu).collect::<Vec<_>>());
    Ok(Compared {
        name: job.name,
        host: wall(&host),
        inside: wall(&inside),
        host_cpu: cpu(&host),
        inside_cpu: cpu(&inside),
        note,
    })
}

impl Compared {
    /// Inside over host; none if the job failed on either side, even once.
    fn ratio(&self) -> Option<f64> {
        if self.note.is_empty() { Some(self.inside?.p50 / self.host?.p50) } else { None }
    }

    /// The same for processor time, which reaches us only through parents that wait for their
    /// children; a ratio that no real work could have shows that one did not.
    fn cpu_ratio(&self) -> Option<f64> {
        const BELIEVABLE: f64 = 0.5;
        let ratio = self.inside_cpu?.p50 / self.host_cpu?.p50;
        (ratio > BELIEVABLE).then_some(ratio)
    }
}

impl fmt::Display for Results {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "job",
            "runs",
            "host p50 ms",
            "inside p50 ms",
            "ratio",
            "ratio of min",
            "ratio of CPU",
            "note",
        ]);
        let number = |value: Option<f64>, places: usize| match value {
            Some(value) => format!("{value:.places$}"),
            None => "–".to_owned(),
        };
        for job in &self.jobs {
            let best = job.inside.zip(job.host).map(|(inside, host)| inside.min / host.min);
            let cpu = job.cpu_ratio();
            table.row([
                job.name.to_owned(),
                job.host.map_or(0, |it| it.runs).to_string(),
                number(job.host.map(|it| it.p50), 0),
                number(job.inside.map(|it| it.p50), 0),
                number(job.ratio(), 3),
                number(best, 3),
                number(cpu, 3),
                job.note.clone(),
            ]);
        }
        writeln!(out, "{}.\n\n{table}", self.machine)?;
        writeln!(out, "Geometric mean of the ratios: {}.", number(self.geometric_mean, 3))
    }
}
