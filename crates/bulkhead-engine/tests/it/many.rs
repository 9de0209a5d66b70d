//! More than one run at a time, and runs that nobody waits for.

use std::{collections::BTreeSet, time::Duration};

use bulkhead_spec::Ending;

use crate::{
    ask::sh,
    house::{House, text},
    traces::{cgroups, eventually, listing},
};

#[tokio::test]
async fn two_runs_at_once_are_apart() {
    let house = House::new();
    let script = "echo $WHO > /tmp/who; echo ready; read go; cat /tmp/who; ps -e 2>/dev/null |
        grep -c sleep; kill -0 $$ && echo only";
    let run = |who: &str| {
        let ask = sh(script).with(|it| {
            it.exec.env.insert("WHO".into(), who.into());
            it.exec.stdin = bulkhead_spec::Stdin::Piped;
        });
        house.start(ask)
    };
    let (mut one, mut other) = (run("one"), run("other"));
    let processes = (one.ready().await, other.ready().await);
    assert_ne!(processes.0, processes.1);
    one.types(b"go\n").await;
    other.types(b"go\n").await;
    assert_eq!(one.line().await, "one");
    assert_eq!(other.line().await, "other");
    assert_eq!(one.end().await.ending, Ending::Exited { code: 0 });
    assert!(processes.0.left().is_empty());
    assert_eq!(other.end().await.ending, Ending::Exited { code: 0 });
    assert!(processes.1.left().is_empty());
}

#[tokio::test]
async fn twenty_runs_at_once_each_have_their_own_outcome() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    let runs: Vec<_> = (0..20)
        .map(|at| {
            let script = format!("echo {at} > /tmp/at; sleep 0.2; cat /tmp/at; exit {at}");
            house.start(sh(&script).on(&work))
        })
        .collect();
    let ids: BTreeSet<String> = runs.iter().map(|it| it.id.clone()).collect();
    for (at, run) in (0..20).zip(runs) {
        let outcome = run.end().await;
        assert_eq!(outcome.ending, Ending::Exited { code: at });
        assert_eq!(text(&outcome.stdout), format!("{at}\n"));
        assert!(ids.contains(&outcome.sandbox));
    }
    assert_eq!(listing(&work), before);
    for id in ids {
        assert_eq!(cgroups(&id), Vec::<std::path::PathBuf>::new());
    }
}

#[tokio::test]
async fn dropping_a_run_ends_its_sandbox() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    let script = "trap '' TERM; (setsid sleep 1000 &); echo ready; sleep 1000";
    let mut running = house.start(sh(script).on(&work));
    let processes = running.ready().await;
    assert_ne!(listing(&work), before, "nothing stands in for what must not be made");
    running.task.abort();
    assert!(running.task.await.unwrap_err().is_cancelled());
    assert!(processes.left().is_empty(), "{:?}", processes.left());
    assert_eq!(listing(&work), before);
    assert_eq!(cgroups(&running.id), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn dropping_a_run_at_any_moment_leaves_nothing() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    for micros in (0..12_000).step_by(500) {
        let running = house.start(sh("sleep 1000").on(&work));
        tokio::time::sleep(Duration::from_micros(micros)).await;
        running.task.abort();
        assert!(running.task.await.unwrap_err().is_cancelled());
        assert_eq!(listing(&work), before, "after {micros} µs");
        assert_eq!(cgroups(&running.id), Vec::<std::path::PathBuf>::new());
        let gone = || crate::traces::Processes::of(&running.id).is_empty();
        eventually("no process is left", Duration::from_secs(1), gone).await;
    }
}

#[tokio::test]
async fn dropping_a_run_lets_go_of_its_callers_streams() {
    let house = House::new();
    let ask =
        sh("echo ready; sleep 1000").with(|it| it.exec.stdin = bulkhead_spec::Stdin::Piped);
    let mut running = house.start(ask);
    running.ready().await;
    running.task.abort();
    // Both ends are closed: reading says so, and so does writing.
    assert_eq!(running.line().await, "");
    running.refuses_input().await;
}
