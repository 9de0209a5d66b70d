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

/// Who carries bytes and looks at nothing.
const RELAYS: &[Name] = &[Name::Splice, Name::Socat, Name::Haproxy];
const PROXIES: &[Name] = &[Name::Squid, Name::Mitmproxy];

/// One way to the server.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: Name,
    #[serde(skip)]
    pub(super) connections: Vec<Duration>,
    /// Gibibytes a second in each round, for as long as it took part.
    pub(super) flows: Vec<f64>,
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
        Self { name, connections, flows, note: String::new() }
    }

    /// Gibibytes a second in the middle one of its rounds.
    fn flow(&self) -> Option<f64> {
        median(&self.flows)
    }
}

/// Of an even number, the lower of both in the middle: always a value that was measured.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

impl Findings {
    fn row(&self, name: Name) -> Option<&Row> {
        self.rows.iter().find(|it| it.name == name)
    }

    fn connection(&self, name: Name) -> Option<Summary> {
        Summary::of(&self.row(name)?.connections)
    }

    /// Our throughput over that of the best of `others` in the same round, at the median of all
    /// rounds. What else the machine does in a round takes from all of them; over rounds it would
    /// be luck who has had the quiet one.
    fn over(&self, others: &[Name]) -> Option<f64> {
        let rivals = || others.iter().filter_map(|it| self.row(*it));
        let best_in = |round: usize| {
            rivals().filter_map(|it| it.flows.get(round).copied()).reduce(f64::max)
        };
        let ours = self.row(Name::Bulkhead)?.flows.iter().enumerate();
        let ratios: Option<Vec<f64>> =
            ours.map(|(round, flow)| Some(flow / best_in(round)?)).collect();
        median(&ratios?)
    }

    /// What `name` adds to the p50 of `to`.
    fn added(&self, name: Name, to: Name) -> Option<f64> {
        Some(self.connection(name)?.p50 - self.connection(to)?.p50)
    }

    pub(super) fn measured(&self) -> Vec<Measured> {
        let Memory { early_kib, late_kib, .. } = self.memory;
        let number = |it: u64| u32::try_from(it).map_or(f64::INFINITY, f64::from);
        let figures = [
            (TO_RELAY, self.over(RELAYS)),
            (TO_PROXY, self.over(PROXIES)),
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
            ["way", "connections", "p50 ms", "added ms", "p90", "min", "p50 GiB/s", "best"];
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
                number(row.flow()),
                number(row.flows.iter().copied().reduce(f64::max)),
            ]);
        }
        writeln!(out, "{table}")?;
        for row in self.rows.iter().filter(|it| !it.note.is_empty()) {
            writeln!(out, "- {}: {}", says(row.name), row.note)?;
        }
        let [relay, proxy] = [RELAYS, PROXIES].map(|it| number(self.over(it)));
        writeln!(
            out,
            "Throughput over that of whoever was best in the same round, median of all rounds: \
             {relay} of relays, {proxy} of proxies."
        )?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_compared_with_itself() {
        let row = |name, flows: &[f64]| Row { flows: flows.to_vec(), ..Row::new(name) };
        let summary = Summary::of(&[Duration::from_millis(1)]).unwrap();
        let findings = Findings {
            machine: Machine::before_the_run(),
            rows: vec![
                // The quiet round is nobody's merit.
                row(Name::Splice, &[2.0, 20.0, 1.0]),
                row(Name::Socat, &[1.0, 10.0, 2.0]),
                row(Name::Bulkhead, &[1.8, 19.0, 1.0]),
                row(Name::Squid, &[1.0]),
            ],
            crowd: 0,
            memory: Memory { requests: 0, early_kib: 0, late_kib: 0 },
            setup: Setup { without: summary, rule: summary, secret: summary },
        };
        let over = findings.over(RELAYS).unwrap();
        assert!((over - 0.9).abs() < 1e-9, "{over}");
        // Who did not take part in every round is not compared.
        assert_eq!(findings.over(PROXIES), None);
    }
}
