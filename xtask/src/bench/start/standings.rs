//! The result of a race: places, ratios, and what must be said about them.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::race::Runner;
use super::{DOCKER_TO_ROOT, DOCKER_TO_USER, ROOT_TO_BWRAP, USER_TO_BWRAP};
use crate::bench::contestants::Name;
use crate::bench::machine::Machine;
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::specification::Measured;

/// Everything that was found out.
#[derive(Serialize)]
pub(super) struct Standings {
    machine: Machine,
    seed: u64,
    contestants: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    name: Name,
    version: String,
    command: String,
    /// What is special about this run, or why there was none.
    note: String,
    failures: usize,
    milliseconds: Option<Summary>,
    microseconds_each: Vec<u128>,
}

impl Standings {
    pub(super) fn of(runners: Vec<Runner>, machine: Machine, seed: u64) -> Self {
        Self { machine, seed, contestants: runners.into_iter().map(place).collect() }
    }

    /// The ratios that are promised, as far as both sides of them ran.
    pub(super) fn measured(&self) -> Vec<Measured> {
        let ratios = [
            (ROOT_TO_BWRAP, Name::Bulkhead, Name::Bwrap),
            (USER_TO_BWRAP, Name::BulkheadUser, Name::BwrapUser),
            (DOCKER_TO_ROOT, Name::Docker, Name::Bulkhead),
            (DOCKER_TO_USER, Name::Docker, Name::BulkheadUser),
        ];
        let measured = ratios.into_iter().filter_map(|(key, of, to)| {
            Some(Measured { key, value: self.median(of)? / self.median(to)? })
        });
        measured.collect()
    }

    fn median(&self, name: Name) -> Option<f64> {
        self.contestants.iter().find(|it| it.name == name)?.milliseconds.map(|it| it.p50)
    }

    fn row(&self, place: &Place) -> [String; 8] {
        let number = |value: Option<f64>| match value {
            Some(value) => format!("{value:.2}"),
            None => "–".to_owned(),
        };
        let as_user = [Name::BulkheadUser, Name::BwrapUser].contains(&place.name);
        let peer = if as_user { Name::BwrapUser } else { Name::Bwrap };
        let summary = place.milliseconds;
        let own = summary.map(|it| it.p50);
        let ratio = |(above, below): (f64, f64)| above / below;
        [
            place.name.to_string(),
            summary.map_or("–".to_owned(), |it| it.runs.to_string()),
            number(own),
            number(summary.map(|it| it.p90)),
            number(summary.map(|it| it.p99)),
            number(summary.map(|it| it.min)),
            number(own.zip(self.median(peer)).map(ratio)),
            number(self.median(Name::Docker).zip(own).map(ratio)),
        ]
    }
}

impl Place {
    /// Which program it was, what it took, and what went wrong.
    fn remark(&self) -> String {
        let cannot = match self.milliseconds {
            Some(_) => "",
            None => "cannot run here",
        };
        let failed = match (self.failures, self.milliseconds) {
            (0, _) | (_, None) => String::new(),
            (failures, Some(_)) => format!("{failures} more runs failed"),
        };
        let parts = [&self.version, cannot, &self.note, &failed];
        let said: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        said.join("; ")
    }
}

impl fmt::Display for Standings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "contestant",
            "runs",
            "p50 ms",
            "p90",
            "p99",
            "min",
            "× bwrap",
            "docker ×",
        ]);
        for place in &self.contestants {
            table.row(self.row(place));
        }
        writeln!(out, "{}.\n\n{table}", self.machine)?;
        for place in self.contestants.iter().filter(|it| !it.remark().is_empty()) {
            writeln!(out, "- {}: {}", place.name, place.remark())?;
        }
        writeln!(
            out,
            "\n`× bwrap`: p50 over that of bwrap, for `-user` rows over that of `bwrap-user`. \
             `docker ×`: how often the p50 goes into that of docker. Order by seed {}.",
            self.seed
        )
    }
}

fn place(runner: Runner) -> Place {
    let (command, note) = match runner.attempt {
        Ok(attempt) => {
            let note = match runner.samples.as_slice() {
                [] => format!("worked once, then all {} runs failed", runner.failures),
                [_, ..] => attempt.note,
            };
            let call = attempt.invocation;
            (format!("{} {}", call.program.display(), call.args.join(" ")), note)
        }
        Err(reason) => (String::new(), reason),
    };
    Place {
        name: runner.name,
        version: runner.version,
        command,
        note,
        failures: runner.failures,
        milliseconds: Summary::of(&runner.samples),
        microseconds_each: runner.samples.iter().map(Duration::as_micros).collect(),
    }
}
