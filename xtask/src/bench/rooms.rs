//! `bench rooms`: rooms that stay.
//!
//! A program in a living room against the same program without one and against `docker exec`; a room
//! that was made ahead, handed out and used, on a quiet machine and on one whose cores are busy;
//! freezing; checkpoints and forks; and many rooms at once.

mod crowd;
mod disks;
mod programs;
mod site;
mod warm;

use std::fmt;
use std::process::ExitCode;

use bulkhead_spec::Bytes;
use clap::Args;
use serde::Serialize;

use crate::bench::CommonArgs;
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::rooms::crowd::Crowd;
use crate::bench::rooms::disks::{Disk, Disks};
use crate::bench::rooms::site::Site;
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::specification::Measured;
use crate::trouble::Trouble;

/// The p50 of a program in a living room over that of the same program without one.
pub(super) const EXEC_TO_FORK: &str = "rooms.exec";
/// The p50 of `docker exec` over that of a program in a living room.
pub(super) const EXEC_TO_DOCKER: &str = "rooms.exec.docker";
/// Milliseconds for a room that was made ahead and its first program, p50.
pub(super) const WARM_MEDIAN: &str = "rooms.warm";
/// The same at p99, with every core busy.
pub(super) const WARM_TAIL: &str = "rooms.warm.busy";
/// Milliseconds for a hundred forks of a room, p50.
pub(super) const FORKS: &str = "rooms.forks";
/// MiB of shim and guest per idle room.
pub(super) const IDLE_MEMORY: &str = "rooms.memory";
/// Seconds until none of many rooms is left.
pub(super) const TIME_TO_END: &str = "rooms.end";
/// How many mounts, cgroups, processes, interfaces or files differ afterwards.
pub(super) const LEFT_BEHIND: &str = "rooms.leaks";

const JUDGES: &[&str] = &[
    EXEC_TO_FORK,
    EXEC_TO_DOCKER,
    WARM_MEDIAN,
    WARM_TAIL,
    FORKS,
    IDLE_MEMORY,
    TIME_TO_END,
    LEFT_BEHIND,
];

/// The count that the promises speak of.
const PROMISED_COUNT: u32 = 1000;

#[derive(Args)]
pub(crate) struct RoomsArgs {
    /// How often each program is run, each room handed out and frozen.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How often `docker exec` runs its program.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    slow_runs: u32,
    /// How often a hundred rooms are forked.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    fork_runs: u32,
    /// How often each disk is copied, and its room forked; 0 to leave that out.
    #[arg(long, default_value_t = 5)]
    disk_runs: u32,
    /// How much is on those disks.
    #[arg(long, value_name = "SIZE", num_args = 1.., default_values = ["64m", "1g"])]
    changes: Vec<Bytes>,
    /// How many rooms live at once; 0 to leave that out.
    #[arg(long, default_value_t = PROMISED_COUNT)]
    count: u32,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) fn run(args: &RoomsArgs) -> Result<ExitCode, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new("`bench rooms` starts a private daemon: run it as root"));
    }
    let machine = Machine::before_the_run();
    let site = Site::prepare(&args.common.bulkhead()?)?;
    // First: where files are not journaled, ext4 makes new ones the slower the more were removed in the
    // minute before, and all that follows removes thousands.
    let forks = disks::forks(&site, args.fork_runs);
    let mut rows = programs::measure(&site, args.runs, args.slow_runs)?;
    rows.extend(warm::measure(&site, args.runs)?);
    rows.extend(forks);
    let disks = match args.disk_runs {
        0 => Vec::new(),
        runs => disks::measure(&site, runs, &args.changes)?,
    };
    let crowd = match args.count {
        0 => None,
        count => Some(Crowd::measure(&site, count)?),
    };
    let findings = Findings { machine: machine.after_the_run(), rows, disks, crowd };
    let report = Report {
        section: "rooms",
        text: findings.to_string(),
        measured: findings.measured(),
        data: &findings,
        judges: JUDGES,
    };
    let code = report.deliver(&args.common)?;
    let left = findings.crowd.as_ref().is_some_and(|it| 0 < it.leaks);
    Ok(if left { ExitCode::FAILURE } else { code })
}

/// What was done many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Fork,
    Exec,
    ExecByCommand,
    DockerExec,
    Warm,
    WarmBusy,
    Cold,
    Pause,
    Resume,
    Forks,
    ForksUsed,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork and exec, no room",
            Self::Exec => "exec in a living room",
            Self::ExecByCommand => "`bulkhead exec`",
            Self::DockerExec => "`docker exec`",
            Self::Warm => "room made ahead + first exec",
            Self::WarmBusy => "the same, every core busy",
            Self::Cold => "room made when wanted + first exec",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Forks => "`bulkhead fork -n 100`",
            Self::ForksUsed => "the same, and a program in each",
        }
    }
}

#[derive(Serialize)]
struct Row {
    what: What,
    summary: Option<Summary>,
    note: String,
}

impl Row {
    fn of(what: What, samples: Result<Vec<std::time::Duration>, Trouble>) -> Self {
        match samples {
            Ok(samples) => Self { what, summary: Summary::of(&samples), note: String::new() },
            Err(trouble) => Self { what, summary: None, note: trouble.sentence() },
        }
    }
}

/// All that was measured.
#[derive(Serialize)]
struct Findings {
    machine: Machine,
    rows: Vec<Row>,
    disks: Vec<Disk>,
    crowd: Option<Crowd>,
}

impl Findings {
    fn of(&self, what: What) -> Option<Summary> {
        self.rows.iter().find(|it| it.what == what)?.summary
    }

    fn measured(&self) -> Vec<Measured> {
        let exec = self.of(What::Exec).map(|it| it.p50);
        let over = |what: What| self.of(what).map(|it| it.p50).zip(exec);
        let crowd = self.crowd.as_ref();
        // Fewer weigh and end otherwise, which proves nothing about as many as were promised.
        let all = crowd.filter(|it| PROMISED_COUNT <= it.count);
        let figures = [
            (EXEC_TO_FORK, over(What::Fork).map(|(fork, exec)| exec / fork)),
            (EXEC_TO_DOCKER, over(What::DockerExec).map(|(docker, exec)| docker / exec)),
            (WARM_MEDIAN, self.of(What::Warm).map(|it| it.p50)),
            (WARM_TAIL, self.of(What::WarmBusy).map(|it| it.p99)),
            (FORKS, self.of(What::Forks).map(|it| it.p50)),
            (IDLE_MEMORY, crowd.map(|it| it.kib_each / 1024.0)),
            (TIME_TO_END, all.map(|it| it.seconds_until_none_is_left)),
            (LEFT_BEHIND, crowd.map(|it| u32::try_from(it.leaks).map_or(f64::MAX, f64::from))),
        ];
        let known = figures.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.map(|(key, value)| Measured { key, value }).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}.\n", self.machine)?;
        let fork = self.of(What::Fork).map(|it| it.p50);
        let mut table = Table::new(["what", "runs", "p50 ms", "p90", "p99", "min", "× fork"]);
        let number =
            |value: Option<f64>| value.map_or("–".to_owned(), |it| format!("{it:.2}"));
        for Row { what, summary, .. } in &self.rows {
            table.row([
                what.name().to_owned(),
                summary.map_or("–".to_owned(), |it| it.runs.to_string()),
                number(summary.map(|it| it.p50)),
                number(summary.map(|it| it.p90)),
                number(summary.map(|it| it.p99)),
                number(summary.map(|it| it.min)),
                number(summary.zip(fork).map(|(it, fork)| it.p50 / fork)),
            ]);
        }
        write!(out, "{table}")?;
        if !self.disks.is_empty() {
            write!(out, "\n{}", Disks(&self.disks))?;
        }
        if let Some(crowd) = &self.crowd {
            write!(out, "\n{crowd}")?;
        }
        for row in self.rows.iter().filter(|it| !it.note.is_empty()) {
            write!(out, "\n- {}: {}", row.what.name(), row.note)?;
        }
        Ok(())
    }
}
