//! `cargo xtask vm test`: the tests, on a machine such as most people have.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::Ground;
use super::binaries::{self, TestBinary};
use super::image::{Reuse, ready};
use super::job::{Place, Report, Step, User};
use super::machine::{Machine, Terms};
use super::trials::{TRIALS, Trial, Turn, What};
use crate::print;
use crate::trouble::Trouble;

/// The longest that one test binary or script may take.
const STEP_LIMIT: Duration = Duration::from_mins(10);

/// A trial as one user, ready to be sent.
struct Attempt {
    title: String,
    step: Step,
}

/// Builds what the trials need, boots once, tries everything whose name contains one of `only` (or
/// everything at all), and says how it went.
pub(super) fn test(
    ground: &Ground,
    only: &[String],
    terms: Terms,
) -> Result<ExitCode, Trouble> {
    let image = ready(&ground.home, Reuse::IfUnchanged)?;
    let started = Instant::now();
    let attempts = attempts(&ground.root, only)?;
    print::progress(&format!("built the trials in {:.1?}", started.elapsed()));

    let steps = attempts.iter().map(|it| it.step.clone()).collect();
    let run_directory = ground.run_directory()?;
    let mut machine = Machine::boot(&image, ground.job(steps), run_directory.path(), terms)?;
    let mut tally = Tally::default();
    let started = Instant::now();
    let mut attempted = 0;
    for attempt in &attempts {
        if let Err(error) = follow(&mut machine, attempt, &mut tally) {
            print::trouble(&error);
            break;
        }
        attempted += 1;
    }
    // What the machine did not live to try has not passed.
    for attempt in attempts.iter().skip(attempted) {
        tally.failed += 1;
        print::result(&format!("FAILED {}: did not end", attempt.title))?;
    }
    print::progress(&format!("tried them in {:.1?}, boot included", started.elapsed()));
    print::result(&format!("{} passed, {} failed", tally.passed, tally.failed))?;
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Listens until the attempt has ended, then tells its result.
fn follow(machine: &mut Machine, attempt: &Attempt, tally: &mut Tally) -> Result<(), Trouble> {
    let mut started = Instant::now();
    let mut output = Vec::new();
    let code = loop {
        match machine.hear() {
            Ok(Report::Begun { .. }) => started = Instant::now(),
            Ok(Report::Output(bytes)) => output.extend(bytes),
            Ok(Report::Ended { code, .. }) => break code,
            Err(trouble) => {
                print::passed_on(&output)?;
                return Err(trouble);
            }
        }
    };
    let text = String::from_utf8_lossy(&output);
    let result = Tally::of(&text, code);
    tally.passed += result.passed;
    tally.failed += result.failed;
    let took = started.elapsed();
    let Tally { passed, failed } = result;
    let title = &attempt.title;
    if failed == 0 {
        return print::result(&format!("ok {title}: {passed} passed ({took:.1?})"));
    }
    print::result(&text)?;
    print::result(&format!(
        "FAILED {title}: {passed} passed, {failed} failed, exit code {code} ({took:.1?})"
    ))
}

/// Tests that passed and tests that did not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    /// Counts what a step printed: the tests if it is a test binary, itself if it is not.
    fn of(output: &str, code: u8) -> Self {
        let mut tally = Self::default();
        let results = output.lines().filter(|line| line.starts_with("test result: "));
        let mut counted = false;
        for result in results {
            counted = true;
            tally.passed += before(result, "passed");
            tally.failed += before(result, "failed");
        }
        if code == 0 && !counted {
            tally.passed = 1;
        }
        // Killed, out of time, or a harness that died after it had counted.
        if code != 0 && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// The number before the word: 12 in `ok. 12 passed; 0 failed`.
fn before(line: &str, word: &str) -> usize {
    line.split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// All attempts at the trials whose name contains one of `only`, those of root first.
fn attempts(root: &Path, only: &[String]) -> Result<Vec<Attempt>, Trouble> {
    let wanted: Vec<_> = TRIALS
        .iter()
        .filter(|it| only.is_empty() || only.iter().any(|part| it.name.contains(part.as_str())))
        .collect();
    if wanted.is_empty() {
        return Err(Trouble::new("no trial has such a name"));
    }
    let built = binaries::build(root, &wanted)?;
    let mut all = Vec::new();
    for user in [User::Root, User::Tester] {
        for trial in &wanted {
            let turns = trial.turns.iter().filter(|it| it.user == user);
            all.extend(turns.flat_map(|turn| attempts_at(trial, turn, &built, root)));
        }
    }
    Ok(all)
}

/// One attempt for a script, one per test binary for a package.
fn attempts_at(trial: &Trial, turn: &Turn, built: &[TestBinary], root: &Path) -> Vec<Attempt> {
    match trial.what {
        What::Script(script) | What::BulkheadScript(script) => vec![Attempt {
            title: format!("{} as {}", trial.name, turn.name()),
            step: Step {
                user: turn.user,
                scope: turn.scope,
                place: Place::Home,
                environment: Vec::new(),
                command: ["sh", "-euc", script].map(str::to_owned).to_vec(),
                limit: STEP_LIMIT,
            },
        }],
        What::TestsOfPackage(pace) => built
            .iter()
            .filter(|it| it.package == trial.name)
            .map(|it| Attempt {
                title: format!("{} ({}) as {}", it.package, it.target, turn.name()),
                step: Step {
                    user: turn.user,
                    scope: turn.scope,
                    place: Place::Directory(it.directory.clone()),
                    environment: it.environment(root),
                    command: it.command(pace, turn.except),
                    limit: STEP_LIMIT,
                },
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, code: u8, passed: usize, failed: usize) {
        assert_eq!(Tally::of(output, code), Tally { passed, failed });
    }

    #[test]
    fn a_test_binary_counts_by_its_tests() {
        let ok = "running 3 tests\n...\n\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s\n";
        check(ok, 0, 3, 0);
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n";
        check(bad, 101, 3, 2);
    }

    #[test]
    fn a_script_counts_as_one() {
        check("anything", 0, 1, 0);
        check("anything", 1, 0, 1);
    }

    #[test]
    fn a_binary_that_dies_has_failed_whatever_it_printed() {
        check("running 3 tests\n", 139, 0, 1);
        check("test result: ok. 3 passed; 0 failed; 0 ignored\n", 137, 3, 1);
    }
}
