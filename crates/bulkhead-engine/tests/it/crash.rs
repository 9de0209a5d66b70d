//! Bulkhead itself is killed, and the next one cleans up.

use std::{fs, os::unix::fs::DirBuilderExt as _, path::Path, time::Duration};

use bulkhead_spec::Stdin;

use crate::{
    ask::{Ask, sh},
    house::{House, new_id},
    role::{Player, Role},
    traces::{Processes, cgroups, eventually, listing},
};

/// How long after its Bulkhead a sandbox may still be there.
const PROMISED: Duration = Duration::from_secs(2);

/// What was swept, as the record says.
fn swept(house: &House) -> Vec<String> {
    let events = house.ledger();
    let events =
        events.lines().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
    let swept = events.filter(|it| it["event"] == "swept");
    swept.map(|it| it["what"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_killed_bulkhead_takes_its_sandbox_along() {
    let (house, id) = (House::new(), new_id());
    let work = house.workspace();
    // A person's own, as empty as ours.
    fs::DirBuilder::new().mode(0o755).create(work.join(".vscode")).unwrap();
    let before = listing(&work);
    let mut player = Player::start(Role::Stay, &house.path(), &id);
    player.ready();
    let processes = Processes::of(&id);
    assert!(!processes.is_empty());
    player.kill();
    eventually("no process is left", PROMISED, || processes.left().is_empty()).await;

    let left = !cgroups(&id).is_empty();
    assert_ne!(listing(&work), before, "nothing was left to be swept");
    house.engine.sweep().await.unwrap();
    assert_eq!(listing(&work), before);
    assert!(cgroups(&id).is_empty(), "{:?}", cgroups(&id));
    let swept = swept(&house);
    assert!(!left || swept.contains(&format!("cgroup of {id}")), "{swept:?}");
    let vscode = work.join(".vscode");
    assert!(swept.iter().all(|it| !it.ends_with(vscode.to_str().unwrap())), "{swept:?}");
}

#[tokio::test]
async fn a_second_sweep_finds_nothing() {
    let (house, id) = (House::new(), new_id());
    let mut player = Player::start(Role::Stay, &house.path(), &id);
    player.ready();
    player.kill();
    let gone = || Processes::of(&id).is_empty();
    eventually("no process is left", PROMISED, gone).await;
    // What others have left meanwhile is swept, too.
    let ours = || swept(&house).into_iter().filter(|it| it.ends_with(&id)).count();
    house.engine.sweep().await.unwrap();
    let first = ours();
    house.engine.sweep().await.unwrap();
    assert_eq!(ours(), first);
}

/// A program that tries to make a protected file whenever it is told to, and says what came of it.
fn prober(work: &Path) -> Ask {
    let script = "echo ready; while read word; do
        if (mkdir .vscode; : > .vscode/tasks.json || : > .envrc) 2>/dev/null
        then echo made; else echo refused; fi; done";
    sh(script).on(work).with(|it| it.exec.stdin = Stdin::Piped)
}

#[tokio::test]
async fn a_sweep_leaves_the_living_alone() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    let mut living = house.start(prober(&work));
    let processes = living.ready().await;
    let during = listing(&work);
    house.engine.sweep().await.unwrap();
    // Cgroups are swept for the whole host, so others may be among them.
    let ours = [living.id.as_str(), work.to_str().unwrap()];
    let swept = swept(&house);
    assert!(!swept.iter().any(|it| ours.iter().any(|ours| it.contains(ours))), "{swept:?}");
    assert_eq!(listing(&work), during);
    assert_eq!(processes.left(), processes);
    living.types(b"try\n").await;
    assert_eq!(living.line().await, "refused");
    living.ends_input();
    living.end().await;
    assert_eq!(listing(&work), before);
}

#[tokio::test]
async fn a_sandbox_stays_protected_when_another_of_its_workspace_ends() {
    let house = House::new();
    let work = house.workspace();
    let before = listing(&work);
    let (mut first, mut second) = (house.start(prober(&work)), house.start(prober(&work)));
    first.ready().await;
    second.ready().await;
    let mut third = house.start(prober(&work));
    third.ready().await;
    first.ends_input();
    first.end().await;
    for running in [&mut second, &mut third] {
        running.types(b"try\n").await;
        assert_eq!(running.line().await, "refused");
    }
    second.ends_input();
    second.end().await;
    third.types(b"try\n").await;
    assert_eq!(third.line().await, "refused");
    third.ends_input();
    third.end().await;
    assert_eq!(listing(&work), before);
}

#[tokio::test]
async fn a_sandbox_stays_protected_when_another_of_its_workspace_is_swept() {
    let (house, id) = (House::new(), new_id());
    let work = house.workspace();
    let before = listing(&work);
    let mut player = Player::start(Role::Stay, &house.path(), &id);
    player.ready();
    let mut living = house.start(prober(&work));
    living.ready().await;
    player.kill();
    let dead = Processes::of(&id);
    eventually("no process is left", PROMISED, || dead.left().is_empty()).await;
    house.engine.sweep().await.unwrap();
    living.types(b"try\n").await;
    assert_eq!(living.line().await, "refused");
    living.ends_input();
    living.end().await;
    house.engine.sweep().await.unwrap();
    assert_eq!(listing(&work), before);
}

#[tokio::test]
async fn a_bulkhead_that_is_killed_at_any_moment_leaves_no_process() {
    let house = House::new();
    let before = listing(&house.workspace());
    let home = house.path();
    for round in 0..24_u32 {
        let id = new_id();
        let player = Player::start(Role::Churn, &home, &id);
        let events = || house.ledger().matches(&format!("\"{id}-1\"")).count();
        eventually("it runs", Duration::from_secs(10), || 0 < events()).await;
        // Not in step with what it does: each round hits another moment.
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 577)).await;
        player.kill();
        let left = || Processes::among(|pid| is_of(pid, &id, &home));
        eventually("no process is left", PROMISED, || left().is_empty()).await;
    }
    house.engine.sweep().await.unwrap();
    assert_eq!(listing(&house.workspace()), before);
}

/// Whether `pid` is of the runs `id`: a copy of their Bulkhead that is not a sandbox yet, or one
/// that is.
fn is_of(pid: u32, id: &str, house: &Path) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let holds = |what: &str, word: &[u8]| read(what).windows(word.len()).any(|it| it == word);
    let marked = || holds("environ", house.as_os_str().as_encoded_bytes());
    let counted = || holds("cgroup", id.as_bytes());
    pid != std::process::id() && (marked() || counted())
}
