//! `bench server`: rooms over HTTP, as clients see them.
//!
//! Clients are E2B's own Python SDK, unmodified, and plain HTTP where the SDK would be what is
//! measured. llm-sandbox on Docker does the same work beside it, if it is installed.

mod client;
mod peer;

use std::fmt;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::bench::CommonArgs;
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::server::client::Samples;
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::print;
use crate::scratch::Scratch;
use crate::specification::Measured;
use crate::trouble::Trouble;

/// Until the first byte of a program in a fresh room reaches the SDK, p50.
pub(super) const FIRST_OUTPUT: &str = "server.first";
/// The same from a room that waited, p50.
pub(super) const WARM: &str = "server.warm";
/// A program in a room that runs, from the request to the end of its answer, p50.
pub(super) const EXEC: &str = "server.exec";
/// A Python snippet in a context that is made for it, p50.
pub(super) const CONTEXT: &str = "server.context";
/// Rooms that are made and ended in a second.
pub(super) const CREATES: &str = "server.creates";
/// The throughput of a download over that of a plain file server.
pub(super) const DOWNLOAD: &str = "server.download";

const JUDGES: &[&str] = &[FIRST_OUTPUT, WARM, EXEC, CONTEXT, CREATES, DOWNLOAD];

/// What the client calls what it measures.
const FIRST: &str = "cold create until first output";
const FROM_POOL: &str = "warm create until first output";
const ROUND_TRIP: &str = "exec round trip";
const FRESH: &str = "snippet in a fresh context";
const RATE: &str = "creates and deletes in a second";
const OURS: &str = "download";
const PLAIN: &str = "download from a plain file server";

#[derive(Args)]
pub(crate) struct ServerArgs {
    /// How often each call is made.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// For how many seconds rooms are made and ended.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How many MiB the file has that is sent and fetched.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    file: u32,
    /// How many rooms are made at once, such as 1000; 0 to leave that out.
    #[arg(long, default_value_t = 0)]
    rooms: u32,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) fn run(args: &ServerArgs) -> Result<ExitCode, Trouble> {
    let machine = Machine::before_the_run();
    let scratch = Scratch::new()?;
    print::progress("through E2B's Python SDK");
    let ours = client::measure(args, &args.common.bulkhead()?, &scratch)?;
    print::progress("llm-sandbox on Docker");
    let peer = peer::measure(args.runs.min(20), args.file, &scratch);
    let (theirs, note) = match peer {
        Ok(samples) => (Some(samples), String::new()),
        Err(trouble) => (None, trouble.to_string()),
    };
    let machine = machine.after_the_run();
    let findings = Findings::of(machine, &ours, theirs.as_ref(), note);
    let report = Report {
        section: "server",
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
    times: Vec<Row>,
    figures: Vec<Figure>,
    /// Why there is nothing of llm-sandbox.
    note: String,
}

#[derive(Serialize)]
struct Row {
    what: String,
    by: &'static str,
    summary: Summary,
}

/// Something that was measured once.
#[derive(Serialize)]
struct Figure {
    what: String,
    by: &'static str,
    value: f64,
    unit: &'static str,
}

impl Findings {
    fn of(machine: Machine, ours: &Samples, theirs: Option<&Samples>, note: String) -> Self {
        let by = [("Bulkhead", Some(ours)), ("llm-sandbox", theirs)];
        let rows = by.into_iter().flat_map(|(by, samples)| {
            let times = samples.into_iter().flat_map(Samples::summaries);
            times.map(move |(what, summary)| Row { what, by, summary })
        });
        let figures = by.into_iter().flat_map(|(by, samples)| {
            let figures = samples.into_iter().flat_map(Samples::figures);
            figures.map(move |(what, value, unit)| {
                // A rate of rooms has no unit but the second in its name.
                let unit = if what == RATE { "" } else { unit };
                Figure { what, by, value, unit }
            })
        });
        Self { machine, times: rows.collect(), figures: figures.collect(), note }
    }

    fn p50(&self, what: &str) -> Option<f64> {
        let row = self.times.iter().find(|it| it.what == what && it.by == "Bulkhead")?;
        Some(row.summary.p50)
    }

    fn figure(&self, what: &str) -> Option<f64> {
        let found = self.figures.iter().find(|it| it.what == what && it.by == "Bulkhead")?;
        Some(found.value)
    }

    fn measured(&self) -> Vec<Measured> {
        let download =
            self.figure(OURS).zip(self.figure(PLAIN)).map(|(ours, plain)| ours / plain);
        let figures = [
            (FIRST_OUTPUT, self.p50(FIRST)),
            (WARM, self.p50(FROM_POOL)),
            (EXEC, self.p50(ROUND_TRIP)),
            (CONTEXT, self.p50(FRESH)),
            (CREATES, self.figure(RATE)),
            (DOWNLOAD, download),
        ];
        let known = figures.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.map(|(key, value)| Measured { key, value }).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}.\n", self.machine)?;
        let mut table = Table::new(["what", "by", "runs", "p50 ms", "p90", "min"]);
        for Row { what, by, summary } in &self.times {
            let number = |value: f64| format!("{value:.2}");
            table.row([
                what.clone(),
                (*by).to_owned(),
                summary.runs.to_string(),
                number(summary.p50),
                number(summary.p90),
                number(summary.min),
            ]);
        }
        writeln!(out, "{table}")?;
        let mut table = Table::new(["what", "by", "figure"]);
        for Figure { what, by, value, unit } in &self.figures {
            let figure =
                if *value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
            let figure = format!("{figure} {unit}").trim_end().to_owned();
            table.row([what.clone(), (*by).to_owned(), figure]);
        }
        write!(out, "{table}")?;
        if !self.note.is_empty() {
            write!(out, "\nNothing of llm-sandbox: {}.", self.note)?;
        }
        Ok(())
    }
}
