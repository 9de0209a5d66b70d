//! Everybody by turns, so that a slow minute of the machine is everybody's.

use std::time::Duration;

use crate::bench::container::field::{Field, Job, WAYS, Way};

/// The samples of each way, or why it has none.
pub(super) fn take(
    field: &Field,
    job: Job,
    runs: u32,
) -> Vec<(Way, Result<Vec<Duration>, String>)> {
    // The first one does not count: it may lay files out.
    let mut taken: Vec<(Way, Result<Vec<Duration>, String>)> =
        WAYS.iter().map(|way| (*way, field.time(*way, job).map(|_| Vec::new()))).collect();
    for _ in 0..runs {
        for (way, samples) in &mut taken {
            let Ok(known) = samples else { continue };
            match field.time(*way, job) {
                Ok(sample) => known.push(sample),
                Err(reason) => *samples = Err(reason),
            }
        }
    }
    taken
}
