//! Numbers for Prometheus.

use crate::locked::locked;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The upper ends of the buckets of lengths of time, in seconds.
const BUCKETS: [f64; 12] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

/// What the server counts itself.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    starts: Histogram,
    runs: Histogram,
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Meters {
    /// A sandbox was made in this time.
    pub(crate) fn started(&self, took: Duration) {
        self.starts.add(took);
    }

    /// A program ran so long.
    pub(crate) fn ran(&self, took: Duration) {
        self.runs.add(took);
    }

    /// A call was answered.
    pub(crate) fn answered(&self, call: &'static str, status: u16) {
        let mut answers = locked(&self.answers);
        *answers.entry((call, status)).or_default() += 1;
    }

    /// Everything, as text.
    pub(crate) fn write(&self, backend: &str, out: &mut Page) {
        let label = format!("backend=\"{backend}\"");
        out.title(
            "bulkhead_sandbox_start_duration_seconds",
            "histogram",
            "How long it took to make a sandbox.",
        );
        self.starts.write("bulkhead_sandbox_start_duration_seconds", &label, out);
        out.title("bulkhead_exec_duration_seconds", "histogram", "How long programs ran.");
        self.runs.write("bulkhead_exec_duration_seconds", "", out);
        out.title("bulkhead_http_requests_total", "counter", "Calls that were answered.");
        let answers = locked(&self.answers);
        for ((call, status), count) in &*answers {
            let labels = format!("call=\"{call}\",status=\"{status}\"");
            out.value("bulkhead_http_requests_total", &labels, *count);
        }
    }
}

impl Histogram {
    fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            if seconds <= end {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, name: &str, label: &str, out: &mut Page) {
        let comma = if label.is_empty() { "" } else { "," };
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            let labels = format!("{label}{comma}le=\"{end}\"");
            out.value(&format!("{name}_bucket"), &labels, bucket.load(Ordering::Relaxed));
        }
        let count = self.count.load(Ordering::Relaxed);
        out.value(&format!("{name}_bucket"), &format!("{label}{comma}le=\"+Inf\""), count);
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        out.value(&format!("{name}_sum"), label, sum.as_secs_f64());
        out.value(&format!("{name}_count"), label, count);
    }
}

/// A page of numbers.
#[derive(Debug, Default)]
pub(crate) struct Page(pub(crate) String);

impl Page {
    /// What a number is.
    pub(crate) fn title(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").unwrap_or_default();
    }

    /// A number.
    pub(crate) fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        writeln!(self.0, "{name}{labels} {value}").unwrap_or_default();
    }
}
