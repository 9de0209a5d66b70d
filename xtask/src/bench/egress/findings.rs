//! All that was measured, as a table and as figures.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::setup::Setup;
use super::{CROWD, MEMORY, Memory, Name, SETUP, TERMINATED, TO_PROXY, TO_RELAY, TUNNELLED};
use crate::bench::machine::Machine;
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::specification::Measured;

/// One way to the server.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: Name,
    #[serde(skip)]
    pub(super) connections: Vec<Duration>,
    #[serde(skip)]
    pub(super) flows: Vec<Duration>,
    /// In each of the flows.
    pub(super) bytes: u64,
    pub(super) note: String,
}

/// All of it.
#[derive(Serialize)]
pub(super) struct Findings {
    pub(super) machine: Machine,
    pub(super) rows: Vec<Row>,
    pub(super) crowd: u32,
    pub(super) memory: Memory,
    pub(super) setup: Setup,
}

impl Row {
    pub(super) fn new(name: Name) -> Self {
        let (connections, flows) = (Vec::new(), Vec::new());
        Self { name, connections, flows, bytes: 0, note: String::new() }
    }

    /// Gibibytes a second, at best: whatever else the machine does only takes away from it.
    fn best(&self) -> Option<f64> {
        self.flows.iter().min().map(|it| self.rate(*it))
    }

    fn rate(&self, took: Duration) -> f64 {
        let bytes = u32::try_from(self.bytes >> 20).map_or(0.0, f64::from);
        bytes / 1024.0 / took.as_secs_f64()
    }
}

impl Findings {
    fn row(&self, name: Name) -> Option<&Row> {
        self.rows.iter().find(|it| it.name == name)
    }

    fn connection(&self, name: Name) -> Option<Summary> {
        Summary::of(&self.row(name)?.connections)
    }

    fn best_of(&self, names: &[Name]) -> Option<f64> {
        let rates = names.iter().filter_map(|it| self.row(*it)?.best());
        rates.fold(None, |best: Option<f64>, it| Some(best.map_or(it, |best| best.max(it))))
    }

    /// What `name` adds to the p50 of `to`.
    fn added(&self, name: Name, to: Name) -> Option<f64> {
        Some(self.connection(name)?.p50 - self.connection(to)?.p50)
    }

    pub(super) fn measured(&self) -> Vec<Measured> {
        let ours = self.best_of(&[Name::Bulkhead]);
        let over = |others: &[Name]| Some(ours? / self.best_of(others)?);
        let Memory { early_kib, late_kib, .. } = self.memory;
        let number = |it: u64| u32::try_from(it).map_or(f64::INFINITY, f64::from);
        let figures = [
            (TO_RELAY, over(&[Name::Splice, Name::Socat, Name::Haproxy])),
            (TO_PROXY, over(&[Name::Squid, Name::Mitmproxy])),
            (TUNNELLED, self.added(Name::Bulkhead, Name::Direct)),
            (TERMINATED, self.added(Name::BulkheadTls, Name::DirectTls)),
            (CROWD, Some(f64::from(self.crowd))),
            (MEMORY, Some(number(late_kib) / number(early_kib.max(1)))),
            (SETUP, Some(self.setup.rule.p50 - self.setup.without.p50)),
        ];
        let known = figures.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.map(|(key, value)| Measured { key, value }).collect()
    }
}

fn says(name: Name) -> &'static str {
    match name {
        Name::Direct => "direct",
        Name::Splice => "bare splice loop",
        Name::Socat => "socat",
        Name::Haproxy => "HAProxy, TCP",
        Name::Squid => "squid, CONNECT",
        Name::Mitmproxy => "mitmproxy, CONNECT",
        Name::Bulkhead => "Bulkhead",
        Name::BulkheadConnect => "Bulkhead, CONNECT",
        Name::DirectTls => "direct, TLS",
        Name::MitmproxyTls => "mitmproxy, TLS read",
        Name::BulkheadTls => "Bulkhead, TLS read",
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}.\n", self.machine)?;
        let head =
            ["way", "connections", "p50 ms", "added ms", "p90", "min", "GiB/s", "p50 GiB/s"];
        let mut table = Table::new(head);
        let number = |it: Option<f64>| it.map_or("–".to_owned(), |it| format!("{it:.3}"));
        for row in &self.rows {
            let summary = Summary::of(&row.connections);
            let base = if row.name.is_tls() { Name::DirectTls } else { Name::Direct };
            table.row([
                says(row.name).to_owned(),
                row.connections.len().to_string(),
                number(summary.map(|it| it.p50)),
                number(self.added(row.name, base)),
                number(summary.map(|it| it.p90)),
                number(summary.map(|it| it.min)),
                number(row.best()),
                number(
                    Summary::of(&row.flows)
                        .map(|it| row.rate(Duration::from_secs_f64(it.p50 / 1e3))),
                ),
            ]);
        }
        writeln!(out, "{table}")?;
        for row in self.rows.iter().filter(|it| !it.note.is_empty()) {
            writeln!(out, "- {}: {}", says(row.name), row.note)?;
        }
        let Memory { requests, early_kib, late_kib } = self.memory;
        writeln!(out, "{} connections at one time, each answered twice.", self.crowd)?;
        writeln!(
            out,
            "Supervisor and gateway after a tenth of {requests} requests that were read: \
             {early_kib} KiB; after all: {late_kib} KiB."
        )?;
        let Setup { without, rule, secret } = &self.setup;
        write!(
            out,
            "Start to end of `/bin/true`, p50 (min) of {} each: {:.2} ({:.2}) ms without a network, \
             {:.2} ({:.2}) with a rule, {:.2} ({:.2}) with a rule and a secret.",
            without.runs, without.p50, without.min, rule.p50, rule.min, secret.p50, secret.min
        )
    }
}
