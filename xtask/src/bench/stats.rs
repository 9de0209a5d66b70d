//! What a set of durations says.

use std::time::Duration;

use serde::Serialize;

/// The places of a distribution, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) runs: usize,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}

impl Summary {
    /// Summarises samples in any order; nothing can be said about none.
    pub(crate) fn of(samples: &[Duration]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let at = |percent| percentile(&sorted, percent).map(milliseconds);
        Some(Self {
            runs: sorted.len(),
            min: milliseconds(*sorted.first()?),
            p50: at(50)?,
            p90: at(90)?,
            p99: at(99)?,
        })
    }
}

/// The geometric mean, which treats "twice as slow" and "twice as fast" as opposites.
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let count = f64::from(u32::try_from(ratios.len()).ok().filter(|it| *it > 0)?);
    Some((ratios.iter().map(|it| it.ln()).sum::<f64>() / count).exp())
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The nearest-rank percentile: always a value that was measured.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(range: impl Iterator<Item = u64>) -> Vec<Duration> {
        range.map(Duration::from_millis).collect()
    }

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let summary = Summary::of(&durations((1..=200).rev())).unwrap();
        let expected = Summary { runs: 200, min: 1.0, p50: 100.0, p90: 180.0, p99: 198.0 };
        assert_eq!(summary, expected);
    }

    #[test]
    fn one_sample_is_every_percentile() {
        let summary = Summary::of(&durations(7..=7)).unwrap();
        assert_eq!(summary, Summary { runs: 1, min: 7.0, p50: 7.0, p90: 7.0, p99: 7.0 });
    }

    #[test]
    fn one_outlier_moves_only_the_tail() {
        let mut samples = durations(std::iter::repeat_n(5, 99));
        samples.push(Duration::from_secs(9));
        let summary = Summary::of(&samples).unwrap();
        assert_eq!((summary.p50, summary.p90, summary.p99), (5.0, 5.0, 5.0));
        samples.push(Duration::from_secs(9));
        assert!(Summary::of(&samples).unwrap().p99 > 8999.0);
    }

    #[test]
    fn nothing_has_no_summary_and_no_mean() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn opposites_cancel_in_the_mean() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.1]).unwrap() - 1.1).abs() < 1e-12);
    }
}
