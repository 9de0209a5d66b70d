//! `bench container`: what Bulkhead adds to Docker, or saves.
//!
//! All of it on one daemon and one image, in one run: the start of a program, the same work, a
//! second program in a sandbox that runs, and many at once.

mod crowd;
mod field;
mod second;
mod turns;

use std::fmt;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::bench::CommonArgs;
use crate::bench::container::crowd::Crowd;
use crate::bench::container::field::{Field, Job, Way};
use crate::bench::container::second::Second;
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::specification::Measured;
use crate::trouble::Trouble;

/// The p50 of `bulkhead run --backend docker` over that of a hardened `docker run`.
pub(super) const RUN_TO_DOCKER: &str = "container.run";
/// The p50 of `docker exec` over that of a second program in a sandbox.
pub(super) const EXEC_TO_DOCKER: &str = "container.exec";
/// The time of many sandboxes at once over that of as many hardened `docker run`.
pub(super) const CROWD_TO_DOCKER: &str = "container.crowd";

const JUDGES: &[&str] = &[RUN_TO_DOCKER, EXEC_TO_DOCKER, CROWD_TO_DOCKER];

#[derive(Args)]
pub(crate) struct ContainerArgs {
    /// How often each way starts the program and does the work.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How many run at once.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    crowd: u32,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) fn run(args: &ContainerArgs) -> Result<ExitCode, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new("`bench container` starts a private daemon: run it as root"));
    }
    let machine = Machine::before_the_run();
    let field = Field::prepare(args.common.bulkhead()?)?;
    let mut rows = Vec::new();
    for job in [Job::Nothing, Job::Work] {
        for (way, samples) in turns::take(&field, job, args.runs) {
            let (summary, note) = match samples {
                Ok(samples) => (Summary::of(&samples), String::new()),
                Err(reason) => (None, reason),
            };
            rows.push(Row { job, way, summary, note });
        }
    }
    let second = Second::measure(&field, args.runs)?;
    let crowd = Crowd::measure(&field, args.crowd)?;
    let daemon = field.describe();
    let findings = Findings { machine: machine.after_the_run(), daemon, rows, second, crowd };
    let report = Report {
        section: "container",
        text: findings.to_string(),
        measured: findings.measured(),
        data: &findings,
        judges: JUDGES,
    };
    report.deliver(&args.common)
}

/// All that was measured.
#[derive(Serialize)]
struct Findings {
    machine: Machine,
    daemon: String,
    rows: Vec<Row>,
    second: Second,
    crowd: Crowd,
}

#[derive(Serialize)]
struct Row {
    job: Job,
    way: Way,
    summary: Option<Summary>,
    note: String,
}

impl Findings {
    fn p50(&self, job: Job, way: Way) -> Option<f64> {
        let row = self.rows.iter().find(|it| it.job == job && it.way == way)?;
        row.summary.map(|it| it.p50)
    }

    fn measured(&self) -> Vec<Measured> {
        let run = self.p50(Job::Nothing, Way::OnDocker);
        let docker = self.p50(Job::Nothing, Way::Hardened);
        let run = run.zip(docker).map(|(run, docker)| run / docker);
        let figures = [
            (RUN_TO_DOCKER, run),
            (EXEC_TO_DOCKER, Some(self.second.docker.p50 / self.second.ours.p50)),
            (CROWD_TO_DOCKER, Some(self.crowd.ours_ms / self.crowd.docker_ms)),
        ];
        let known = figures.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.map(|(key, value)| Measured { key, value }).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}. {}.\n", self.machine, self.daemon)?;
        let head = ["what", "by", "runs", "p50 ms", "p90", "min", "× docker run"];
        let mut table = Table::new(head);
        for row in &self.rows {
            let docker = self.p50(row.job, Way::Hardened);
            let ratio = row.summary.zip(docker).map(|(it, docker)| it.p50 / docker);
            table.row(cells(row.job.name(), row.way.name(), row.summary, ratio));
        }
        let Second { ours, docker, native } = &self.second;
        let named = [
            ("Bulkhead on docker", ours),
            ("docker exec", docker),
            ("Bulkhead natively", native),
        ];
        for (by, summary) in named {
            table.row(cells("second program", by, Some(*summary), None));
        }
        writeln!(out, "{table}")?;
        let Crowd { count, ours_ms, docker_ms } = self.crowd;
        write!(
            out,
            "{count} at once, until all have ended: {ours_ms:.0} ms by Bulkhead on Docker, \
             {docker_ms:.0} ms by `docker run`."
        )?;
        for row in self.rows.iter().filter(|it| !it.note.is_empty()) {
            write!(out, "\n- {}: {}", row.way.name(), row.note)?;
        }
        Ok(())
    }
}

fn cells(what: &str, by: &str, summary: Option<Summary>, ratio: Option<f64>) -> [String; 7] {
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |it| format!("{it:.2}"));
    [
        what.to_owned(),
        by.to_owned(),
        summary.map_or("–".to_owned(), |it| it.runs.to_string()),
        number(summary.map(|it| it.p50)),
        number(summary.map(|it| it.p90)),
        number(summary.map(|it| it.min)),
        number(ratio),
    ]
}
