//! Running all contestants in one shuffled order.

use std::thread;
use std::time::Duration;

use crate::bench::contestants::{Attempt, Field, Name, Pace};
use crate::bench::shuffle::Shuffle;
use crate::bench::spawner::{Messages, Spawner, Stage};
use crate::print;
use crate::programs;
use crate::trouble::Trouble;

/// Before anything counts: caches fill, modules load, the attempt that works is found.
const WARM_UPS: usize = 3;

/// What a contestant's end leaves to the kernel (namespaces, cgroups) is not the next one's.
const REST: Duration = Duration::from_millis(3);
/// Container engines still tidy up after their client has gone.
const LONG_REST: Duration = Duration::from_millis(100);

/// The contestants and the processes that start them.
pub(super) struct Race {
    spawners: Vec<(Stage, Spawner)>,
    runners: Vec<Runner>,
}

/// A contestant on its way.
pub(super) struct Runner {
    pub(super) name: Name,
    pub(super) pace: Pace,
    /// The attempt that works, or why none does.
    pub(super) attempt: Result<Attempt, String>,
    pub(super) version: String,
    pub(super) samples: Vec<Duration>,
    pub(super) failures: usize,
}

impl Race {
    /// Finds out who can run here.
    pub(super) fn line_up(field: &Field, chosen: &[Name]) -> Result<Self, Trouble> {
        let mut race = Self { spawners: Vec::new(), runners: Vec::new() };
        for &name in chosen {
            let contestant = field.contestant(name);
            let attempt = match contestant.attempts {
                Ok(attempts) => race.first_that_works(attempts)?,
                Err(reason) => Err(reason),
            };
            if let Err(reason) = &attempt {
                print::progress(&format!("{name} cannot run here: {reason}"));
            }
            race.runners.push(Runner {
                name,
                pace: contestant.pace,
                version: attempt.as_ref().map(version).unwrap_or_default(),
                attempt,
                samples: Vec::new(),
                failures: 0,
            });
        }
        Ok(race)
    }

    fn first_that_works(
        &mut self,
        attempts: Vec<Attempt>,
    ) -> Result<Result<Attempt, String>, Trouble> {
        let mut refusals: Vec<String> = Vec::new();
        for mut attempt in attempts {
            let spawner = self.spawner(&attempt.stage)?;
            match spawner.run(&attempt.invocation, Messages::Kept)?.failure {
                None => {
                    if let Some(first) = refusals.first() {
                        attempt.note = format!("{} (else: {first})", attempt.note);
                    }
                    return Ok(Ok(attempt));
                }
                Some(reason) => refusals.push(reason),
            }
        }
        Ok(Err(refusals.join("; ")))
    }

    pub(super) fn warm_up(&mut self) -> Result<(), Trouble> {
        for _ in 0..WARM_UPS {
            for index in 0..self.runners.len() {
                self.once(index)?;
            }
        }
        for runner in &mut self.runners {
            runner.samples.clear();
            runner.failures = 0;
        }
        Ok(())
    }

    /// Every run of every contestant, in an order that the seed decides.
    pub(super) fn run(&mut self, runs: u32, slow_runs: u32, seed: u64) -> Result<(), Trouble> {
        let mut order: Vec<usize> = Vec::new();
        for (index, runner) in self.runners.iter().enumerate() {
            let count = match (&runner.attempt, runner.pace) {
                (Err(_), _) => 0,
                (Ok(_), Pace::Fast) => runs,
                (Ok(_), Pace::Slow) => slow_runs,
            };
            order.extend((0..count).map(|_| index));
        }
        Shuffle::seeded(seed).shuffle(&mut order);
        let total = order.len();
        let step = total.div_ceil(10).max(1);
        for (done, index) in order.into_iter().enumerate() {
            if done % step == 0 {
                print::progress(&format!("{done} of {total} runs"));
            }
            self.once(index)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Runner> {
        self.runners
    }

    fn once(&mut self, index: usize) -> Result<(), Trouble> {
        let Some(runner) = self.runners.get_mut(index) else { return Ok(()) };
        let Ok(attempt) = &runner.attempt else { return Ok(()) };
        let spawner = self.spawners.iter_mut().find(|(stage, _)| *stage == attempt.stage);
        let Some((_, spawner)) = spawner else { return Ok(()) };
        let run = spawner.run(&attempt.invocation, Messages::Dropped)?;
        match run.failure {
            None => runner.samples.push(run.took()),
            Some(_) => runner.failures += 1,
        }
        thread::sleep(match runner.pace {
            Pace::Fast => REST,
            Pace::Slow => LONG_REST,
        });
        Ok(())
    }

    /// The process that starts things on a stage; made when first needed.
    fn spawner(&mut self, stage: &Stage) -> Result<&mut Spawner, Trouble> {
        if !self.spawners.iter().any(|(it, _)| it == stage) {
            self.spawners.push((stage.clone(), Spawner::on(stage)?));
        }
        let mut spawners = self.spawners.iter_mut();
        let spawner = spawners.find(|(it, _)| it == stage).map(|(_, spawner)| spawner);
        spawner.ok_or_else(|| Trouble::new("the spawner went away"))
    }
}

/// What the program calls itself; runs on the host, whatever the stage.
fn version(attempt: &Attempt) -> String {
    let said =
        programs::output(programs::command(&attempt.invocation.program).arg("--version"));
    said.ok().and_then(|it| Some(it.lines().next()?.trim().to_owned())).unwrap_or_default()
}
