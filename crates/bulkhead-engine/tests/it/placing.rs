//! Who builds what, and what nobody can.

use bulkhead_backends::Unwalled;
use bulkhead_engine::{ErrorKind, RunError};
use bulkhead_policy::Policy;
use bulkhead_spec::{
    Bytes, Ending,
    Guarantee::{
        self, CpuBounded, EgressOnlyThroughProxy, MemoryBounded, NoNetwork, OutputBounded,
        OwnKernel, ProcessesBounded,
    },
    Guarantees, Limits, Walls,
};

use crate::{
    ask::{Ask, program, sh},
    house::{House, engine, native},
};

fn unwalled(policy: Policy) -> House {
    House::build(|dir| engine(dir, policy, vec![Box::new(Unwalled)]))
}

fn waived(script: &str) -> Ask {
    sh(script).with(|it| it.spec.walls = Walls::Waived)
}

fn only(guarantees: impl IntoIterator<Item = Guarantee>) -> Guarantees {
    guarantees.into_iter().collect()
}

/// What is lacking, and the reasons that are given.
async fn unplaced(house: &House, ask: Ask) -> (String, Vec<String>) {
    let error = house.run(ask).await.unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Unavailable, 125));
    let words = error.to_string();
    let RunError::Unplaced { because, .. } = error else { panic!("{words}") };
    (words, because)
}

#[tokio::test]
async fn a_limit_that_nobody_can_hold_is_refused_by_name() {
    let house = unwalled(Policy::default());
    let ask = waived("true").with(|it| it.spec.limits.memory = Some(Bytes(64 << 20)));
    let expected = (
        "no backend here upholds MemoryBounded".to_owned(),
        vec!["MemoryBounded: none cannot, there are no walls".to_owned()],
    );
    assert_eq!(unplaced(&house, ask).await, expected);
}

#[tokio::test]
async fn a_ceiling_of_the_policy_must_be_held_too() {
    let ceiling = Limits { pids: Some(100), ..Limits::default() };
    let house = unwalled(Policy { ceiling, ..Policy::default() });
    let (words, _) = unplaced(&house, waived("true")).await;
    assert_eq!(words, "no backend here upholds ProcessesBounded");
}

#[tokio::test]
async fn a_promise_that_was_asked_for_by_name_is_kept_or_refused() {
    let house = House::new();
    let ask = sh("true").with(|it| it.spec.require = only([OwnKernel, EgressOnlyThroughProxy]));
    let expected = (
        "no backend here upholds OwnKernel".to_owned(),
        vec!["OwnKernel: native cannot, programs share the host's kernel".to_owned()],
    );
    assert_eq!(unplaced(&house, ask).await, expected);
}

#[tokio::test]
async fn walls_are_not_given_up_silently() {
    let house = unwalled(Policy::default());
    let (words, because) = unplaced(&house, sh("true")).await;
    assert!(words.contains("HostFilesHidden") && words.contains("NoNetwork"), "{words}");
    assert_eq!(because.len(), 8, "{because:?}");
}

#[tokio::test]
async fn whoever_waives_the_walls_by_name_has_none() {
    let house = unwalled(Policy::default());
    let ask = waived("echo out; echo err >&2; exit 6").on(&house.workspace());
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 6 });
    assert_eq!((outcome.backend, outcome.upheld), ("none", only([OutputBounded])));
    assert_eq!((&*outcome.stdout.head, &*outcome.stderr.head), (&b"out\n"[..], &b"err\n"[..]));
}

#[tokio::test]
async fn a_policy_that_requires_a_wall_cannot_be_waived() {
    let house = unwalled(Policy { require: only([NoNetwork]), ..Policy::default() });
    let (words, _) = unplaced(&house, waived("true")).await;
    assert_eq!(words, "no backend here upholds NoNetwork");
}

#[tokio::test]
async fn defaults_that_cannot_be_held_are_listed_and_the_program_runs() {
    let defaults = Limits {
        memory: Some(Bytes(64 << 20)),
        cpus: Some("1".parse().unwrap()),
        pids: Some(100),
        output: Some(Bytes(1 << 20)),
        ..Limits::default()
    };
    let house = unwalled(Policy { defaults, ..Policy::default() });
    let outcome = house.run(waived("exit 0").on(&house.workspace())).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(outcome.missing, only([MemoryBounded, CpuBounded, ProcessesBounded]));
}

#[tokio::test]
async fn the_first_that_upholds_everything_builds_it() {
    let house = House::build(|dir| {
        engine(dir, Policy::default(), vec![Box::new(Unwalled), native(dir)])
    });
    let outcome = house.run(sh("exit 0")).await.unwrap();
    assert_eq!(outcome.backend, "native");
    let outcome = house.run(waived("exit 0").on(&house.workspace())).await.unwrap();
    assert_eq!(outcome.backend, "none");
}

#[tokio::test]
async fn what_the_policy_denies_is_not_built() {
    let ceiling = Limits { memory: Some(Bytes(64 << 20)), ..Limits::default() };
    let house = unwalled(Policy { ceiling, ..Policy::default() });
    let ask = waived("true").with(|it| it.spec.limits.memory = Some(Bytes(65 << 20)));
    let error = house.run(ask).await.unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Denied, 125));
}

#[tokio::test]
async fn the_unwalled_end_at_their_deadline_too() {
    let house = unwalled(Policy::default());
    let timeout = std::time::Duration::from_millis(200);
    let ask = waived("trap '' TERM; sleep 1000; sleep 1000").stopped_after(timeout);
    let outcome = house.run(ask.on(&house.workspace())).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: bulkhead_spec::Span(timeout) });
}

#[tokio::test]
async fn the_unwalled_know_a_missing_directory_from_a_missing_program() {
    let house = unwalled(Policy::default());
    let work = house.workspace();
    let missing = waived("true").on(&work).within(&work.join("none"));
    let words = format!("cannot start in `{}`", work.join("none").display());
    assert_eq!(house.run(missing).await.unwrap_err().to_string(), words);
    let missing = program(&["no-such-program"]).with(|it| it.spec.walls = Walls::Waived);
    let error = house.run(missing.on(&work)).await.unwrap_err();
    assert_eq!(error.exit_code(), 127);
}
