//! Many at once.

use std::process::Child;
use std::time::Instant;

use serde::Serialize;

use crate::bench::container::field::{Field, Job, Way};
use crate::bench::stats::milliseconds;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// How long many take that start together, until the last has ended.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Crowd {
    pub(super) count: u32,
    pub(super) ours_ms: f64,
    pub(super) docker_ms: f64,
}

/// Rounds of which the best counts: what the machine does besides only makes them longer.
const ROUNDS: usize = 3;

impl Crowd {
    pub(super) fn measure(field: &Field, count: u32) -> Result<Self, Trouble> {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (best, way) in best.iter_mut().zip([Way::OnDocker, Way::Hardened]) {
                *best = best.min(together(field, way, count)?);
            }
        }
        let [ours_ms, docker_ms] = best;
        Ok(Self { count, ours_ms, docker_ms })
    }
}

fn together(field: &Field, way: Way, count: u32) -> Result<f64, Trouble> {
    let started = Instant::now();
    let spawn = |_| field.command(way, Job::Nothing).spawn();
    let all: Result<Vec<Child>, _> = (0..count).map(spawn).collect();
    let all = all.or_trouble(|| "could not start many at once".to_owned())?;
    for child in all {
        let ended = child.wait_with_output();
        let ended = ended.or_trouble(|| "could not wait for many".to_owned())?;
        if !ended.status.success() {
            let said = programs::last_line(&String::from_utf8_lossy(&ended.stderr));
            return Err(Trouble::new(format!("one of {count} at once failed: {said}")));
        }
    }
    Ok(milliseconds(started.elapsed()))
}
