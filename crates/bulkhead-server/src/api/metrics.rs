//! `GET /metrics`

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use bulkhead_engine::rooms::Client;
use futures_util::{StreamExt as _, stream};
use http::{Method, header::CONTENT_TYPE};
use serde::Deserialize;

use super::{
    events::lines,
    meters::Page,
    operation::{Gives, Operation, call},
    problem::Problem,
};
use crate::{house::House, locked::locked};

/// The form of the page.
const FORM: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How many sandboxes are asked at once.
const AT_ONCE: usize = 32;

/// The call.
pub(super) fn operation() -> Operation {
    call(&Method::GET, "/metrics", ("getMetrics", "Numbers for Prometheus"), metrics)
        .answers(200, Gives::Bytes("text/plain"))
}

async fn metrics(State(house): State<Arc<House>>) -> Result<Response, Problem> {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.title("bulkhead_build_info", "gauge", "Which Bulkhead this is.");
    page.value("bulkhead_build_info", &format!("version=\"{version}\""), 1);
    living(&house, &mut page).await?;
    house.meters.write(&house.base.backend, &mut page);
    house.api.tally.write(&house.api.events, &mut page);
    Ok(([(CONTENT_TYPE, FORM)], page.0).into_response())
}

/// What the living sandboxes use, together: one line each would be one line for every sandbox that
/// ever lived.
async fn living(house: &House, page: &mut Page) -> Result<(), Problem> {
    let rooms = house.journal.living()?;
    let mut clients = Vec::new();
    for room in &rooms {
        clients.push(Client::new(house.journal.socket(&room.record.id)));
    }
    let asked = stream::iter(clients)
        .map(|it| async move { (it.inspect().await.ok(), it.stats().await.ok()) });
    let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
    let mut counts: BTreeMap<(String, &str), u64> = BTreeMap::new();
    let (mut cpu, mut memory, mut kills) = (0.0, 0, 0);
    for (room, stats) in answers {
        if let Some(room) = room {
            let does = if room.paused { "paused" } else { "running" };
            *counts.entry((room.backend, does)).or_default() += 1;
        }
        if let Some(stats) = stats {
            cpu += stats.cpu_seconds.unwrap_or(0.0);
            memory += stats.memory.unwrap_or(0);
            kills += stats.oom_kills;
        }
    }
    page.title("bulkhead_sandboxes", "gauge", "Sandboxes that live.");
    for ((backend, does), count) in counts {
        let labels = format!("backend=\"{backend}\",state=\"{does}\"");
        page.value("bulkhead_sandboxes", &labels, count);
    }
    page.title(
        "bulkhead_sandbox_cpu_seconds",
        "gauge",
        "Processor time of the sandboxes that live.",
    );
    page.value("bulkhead_sandbox_cpu_seconds", "", cpu);
    page.title(
        "bulkhead_sandbox_memory_usage_bytes",
        "gauge",
        "Memory of the sandboxes that live.",
    );
    page.value("bulkhead_sandbox_memory_usage_bytes", "", memory);
    page.title(
        "bulkhead_sandbox_oom_kills",
        "gauge",
        "Processes of the sandboxes that live which were killed for want of memory.",
    );
    page.value("bulkhead_sandbox_oom_kills", "", kills);
    Ok(())
}

/// What the record says, added up as it grows.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    at: u64,
    events: BTreeMap<&'static str, u64>,
    decisions: BTreeMap<(&'static str, &'static str), u64>,
    cpu: f64,
    kills: u64,
    up: u64,
    down: u64,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    event: String,
    egress: Option<String>,
    rule: Option<String>,
    #[serde(default)]
    up: u64,
    #[serde(default)]
    down: u64,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    cpu_seconds: Option<f64>,
    #[serde(default)]
    oom_kills: u64,
}

impl Tally {
    fn write(&self, path: &Path, page: &mut Page) {
        let mut sums = locked(&self.0);
        // Nobody else reads it here, so this ends where the record does.
        while let Ok(lines @ [_, ..]) = lines(path, sums.at).as_deref() {
            for (end, line) in lines {
                sums.at = *end;
                if let Ok(line) = serde_json::from_slice(line) {
                    sums.add(&line);
                }
            }
        }
        sums.write(page);
    }
}

impl Sums {
    fn add(&mut self, line: &Line) {
        let category = match line.event.as_str() {
            "asked" | "denied" | "planned" | "placed" | "furnished" => "evaluation",
            "created" | "destroyed" | "swept" => "management",
            _ => "execution",
        };
        *self.events.entry(category).or_default() += 1;
        if let Some(usage) = &line.usage {
            self.cpu += usage.cpu_seconds.unwrap_or(0.0);
            self.kills += usage.oom_kills;
        }
        let decision = match line.egress.as_deref() {
            Some("allowed") => ("allow", "rule"),
            Some("denied") if line.rule.is_some() => ("deny", "rule"),
            Some("denied") => ("deny", "no_rule"),
            Some(_) | None => {
                self.up += line.up;
                self.down += line.down;
                return;
            }
        };
        *self.decisions.entry(decision).or_default() += 1;
    }

    fn write(&self, page: &mut Page) {
        let name = "bulkhead_audit_events_total";
        page.title(name, "counter", "Lines of the record.");
        for (category, count) in &self.events {
            page.value(name, &format!("category=\"{category}\""), count);
        }
        let name = "bulkhead_egress_requests_total";
        page.title(name, "counter", "Hosts that were asked for by sandboxes, the first time.");
        for ((decision, reason), count) in &self.decisions {
            let labels = format!("decision=\"{decision}\",reason=\"{reason}\"");
            page.value(name, &labels, count);
        }
        let name = "bulkhead_egress_bytes_total";
        page.title(name, "counter", "Bytes of connections that have ended.");
        page.value(name, "direction=\"up\"", self.up);
        page.value(name, "direction=\"down\"", self.down);
        let name = "bulkhead_sandbox_cpu_seconds_total";
        page.title(name, "counter", "Processor time of programs that have ended.");
        page.value(name, "", self.cpu);
        let name = "bulkhead_sandbox_oom_kills_total";
        page.title(name, "counter", "Processes that were killed for want of memory.");
        page.value(name, "", self.kills);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_added_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let text = r#"{"event":"created","sandbox":"a"}
{"event":"egress","egress":"allowed","host":"x","rule":"x"}
{"event":"egress","egress":"denied","host":"y","rule":null}
{"event":"egress","egress":"closed","up":3,"down":5}
{"event":"ended","usage":{"cpu_seconds":1.5,"oom_kills":2}}
"#;
        std::fs::write(&path, text).unwrap();
        let tally = Tally::default();
        let (mut first, mut second) = (Page::default(), Page::default());
        tally.write(&path, &mut first);
        tally.write(&path, &mut second);
        assert_eq!(first.0, second.0);
        for line in [
            "bulkhead_audit_events_total{category=\"management\"} 1",
            "bulkhead_egress_requests_total{decision=\"allow\",reason=\"rule\"} 1",
            "bulkhead_egress_requests_total{decision=\"deny\",reason=\"no_rule\"} 1",
            "bulkhead_egress_bytes_total{direction=\"down\"} 5",
            "bulkhead_sandbox_cpu_seconds_total 1.5",
            "bulkhead_sandbox_oom_kills_total 2",
        ] {
            assert!(first.0.lines().any(|it| it == line), "{line} is not in\n{}", first.0);
        }
    }
}
