//! What a way out adds to the start of a sandbox.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::bench::shuffle::Shuffle;
use crate::bench::spawner::{Invocation, Messages, Spawner, Stage};
use crate::bench::stats::Summary;
use crate::programs;
use crate::trouble::Trouble;

/// From start to end of `/bin/true`, in three kinds of sandbox.
#[derive(Serialize)]
pub(super) struct Setup {
    pub(super) without: Summary,
    pub(super) rule: Summary,
    pub(super) secret: Summary,
}

impl Setup {
    pub(super) fn measure(bulkhead: &Path, dir: &Path, runs: u32) -> Result<Self, Trouble> {
        let mut spawner = Spawner::on(&Stage::Host)?;
        let ways = [
            vec![],
            vec!["--allow", "example.com"],
            vec!["--allow", "example.com", "--secret", "BENCH_KEY@example.com"],
        ];
        let ways = ways.map(|flags| invocation(bulkhead, dir, &flags));
        let mut samples: [Vec<Duration>; 3] = Default::default();
        let mut order: Vec<usize> =
            (0..ways.len()).flat_map(|way| std::iter::repeat_n(way, runs as usize)).collect();
        Shuffle::seeded(Shuffle::seed_from_clock()).shuffle(&mut order);
        // The first of each does not count.
        for (at, way) in (0..ways.len()).chain(order).enumerate() {
            let (Some(invocation), Some(samples)) = (ways.get(way), samples.get_mut(way))
            else {
                continue;
            };
            let run = spawner.run(invocation, Messages::Kept)?;
            if let Some(why) = run.failure {
                return Err(Trouble::new(why));
            }
            if ways.len() <= at {
                samples.push(run.took());
            }
        }
        let [without, rule, secret] = samples.map(|it| Summary::of(&it));
        let all = without.zip(rule).zip(secret);
        let ((without, rule), secret) =
            all.ok_or_else(|| Trouble::new("nothing was started"))?;
        Ok(Self { without, rule, secret })
    }
}

fn invocation(bulkhead: &Path, dir: &Path, flags: &[&str]) -> Invocation {
    let words = ["run"].iter().chain(flags).chain(&["--", "/bin/true"]);
    let env = [
        ("PATH", programs::system_path()),
        ("HOME", dir.display().to_string()),
        ("BULKHEAD_HOME", dir.join("records").display().to_string()),
        ("BENCH_KEY", "sk-0123456789abcdefghijklmnopqrstuvwxyz".to_owned()),
    ];
    Invocation {
        program: bulkhead.to_owned(),
        args: words.map(|it| (*it).to_owned()).collect(),
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        dir: dir.join("work"),
    }
}
