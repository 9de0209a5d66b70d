//! What is written down.

use std::sync::{Arc, Mutex};

use bulkhead_engine::{JsonLines, Ledger, RunError};
use bulkhead_policy::Policy;
use bulkhead_spec::{Bytes, Event};

use crate::{
    ask::{Ask, program, sh},
    house::{House, native},
    traces::listing,
};

/// The record of a run of `ask`, without what differs from run to run and from host to host.
async fn recorded(ask: Ask) -> String {
    let house = House::new();
    match house.run(ask).await {
        Ok(_) | Err(RunError::Denied(_) | RunError::Unplaced { .. } | RunError::Backend(_)) => {
        }
        Err(
            error @ (RunError::Gone
            | RunError::Busy(_)
            | RunError::File(_)
            | RunError::Room { .. }
            | RunError::Secret { .. }
            | RunError::WayOut(_)
            | RunError::Ledger { .. }),
        ) => panic!("{error}"),
    }
    house.ledger()
}

fn check(ledger: &str, name: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r#""time":\d{16}"#, r#""time":[time]"#);
    settings.add_filter(r#""sandbox":"test\d+-\d+""#, r#""sandbox":"[id]""#);
    settings.add_filter(r#""(wall_seconds)":\d+\.\d+"#, r#""$1":[number]"#);
    let measured = r#""(cpu_seconds|memory_peak|processes_peak)":(\d+\.?[\de-]*|null)"#;
    settings.add_filter(measured, r#""$1":[number or null]"#);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, ledger));
}

#[tokio::test]
async fn a_run_is_recorded_from_the_asking_to_the_end() {
    check(&recorded(sh("exit 3")).await, "run");
}

#[tokio::test]
async fn a_limit_that_ended_a_program_is_recorded() {
    let ask = sh("yes").with(|it| it.spec.limits.output = Some(Bytes(1000)));
    check(&recorded(ask).await, "limit");
}

#[tokio::test]
async fn a_denial_is_recorded_with_its_reason() {
    let ask = sh("true").with(|it| it.spec.limits.memory = Some(Bytes(1)));
    check(&recorded(ask).await, "denial");
}

#[tokio::test]
async fn a_program_that_did_not_start_is_recorded_to_the_end_of_its_sandbox() {
    check(&recorded(program(&["no-such\x1bprogram"])).await, "not-started");
}

#[tokio::test]
async fn lines_of_several_runs_do_not_mix() {
    let house = House::new();
    let runs: Vec<_> = (0..8).map(|_| house.start(sh("echo x"))).collect();
    for run in runs {
        run.end().await;
    }
    let ledger = house.ledger();
    assert_eq!(ledger.lines().count(), 8 * 7);
    for line in ledger.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["event"].is_string() && line["sandbox"].is_string(), "{line}");
    }
}

/// Runs a program in `house` and looks that it was refused for want of a record, and that nothing
/// was there before or after.
async fn is_refused(house: &House) -> RunError {
    let work = house.workspace();
    let before = listing(&work);
    let witness = work.join("witness");
    let script = format!("echo ran > {}", witness.display());
    let error = house.run(sh(&script).on(&work)).await.unwrap_err();
    assert!(matches!(error, RunError::Ledger { .. }), "{error}");
    assert_eq!(error.exit_code(), 125);
    assert_eq!(listing(&work), before);
    error
}

#[tokio::test]
async fn what_cannot_be_recorded_for_want_of_space_is_not_run() {
    // Opening it works, and every write says that there is no space left.
    let full = std::path::Path::new("/dev/full");
    let house = House::build(|dir| bulkhead_engine::Engine {
        policy: Policy::default(),
        backends: vec![native(dir)],
        ledger: Arc::new(JsonLines::open(full).unwrap()),
        outside: bulkhead_engine::Outside::default(),
    });
    let error = is_refused(&house).await;
    assert_eq!(error.to_string(), "could not write the record of this run to `/dev/full`");
    assert!(!house.path().join("state").exists(), "something was created");
}

#[test]
fn a_ledger_that_cannot_be_opened_is_an_error() {
    let dir = tempfile::TempDir::new().unwrap();
    let error = JsonLines::open(dir.path()).err().unwrap();
    let expected =
        format!("could not write the record of this run to `{}`", dir.path().display());
    assert_eq!(error.to_string(), expected);
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(JsonLines::open(&dir.path().join("file/ledger")).is_err());
}

/// A ledger that fails at the event of a number.
struct Failing {
    left: Mutex<u32>,
}

impl Ledger for Failing {
    fn record(&self, _: &str, _: &Event) -> Result<(), RunError> {
        let mut left = self.left.lock().unwrap();
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                Ok(())
            }
            None => Err(RunError::Ledger {
                path: "memory".to_owned(),
                source: std::io::ErrorKind::StorageFull.into(),
            }),
        }
    }
}

#[tokio::test]
async fn a_record_that_fails_midway_leaves_nothing_behind() {
    for events in 0..5 {
        let house = House::build(|dir| bulkhead_engine::Engine {
            policy: Policy::default(),
            backends: vec![native(dir)],
            ledger: Arc::new(Failing { left: Mutex::new(events) }),
            outside: bulkhead_engine::Outside::default(),
        });
        let work = house.workspace();
        let before = listing(&work);
        let mut running = house.start(sh("sleep 0.1").on(&work));
        assert_eq!(running.line().await, "");
        let error = running.task.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Ledger { .. }), "{error}");
        assert_eq!(listing(&work), before, "after {events} events");
        assert!(crate::traces::cgroups(&running.id).is_empty(), "after {events} events");
        assert!(crate::traces::Processes::of(&running.id).is_empty(), "after {events} events");
    }
}
