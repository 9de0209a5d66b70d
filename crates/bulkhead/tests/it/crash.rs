//! What is left when Bulkhead itself is killed, and for how long.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    host::{Host, hear, processes_with, within},
    work::Work,
};

/// The control groups of the sandbox called `name`.
pub(crate) fn groups(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().contains(name) {
            found.push(path.clone());
        }
        found.extend(groups(&path, name));
    }
    found
}

/// All that is in and below `dir`.
pub(crate) fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn nothing_outlives_a_killed_bulkhead_and_the_next_run_tidies_up() {
    let host = Host::new();
    assert!(host.program("git").args(["init", "--quiet"]).status().unwrap().success());
    let before = listing(&host.project());
    let name = format!("killed-{}", std::process::id());
    let script = format!(
        "trap '' HUP TERM; (setsid sh -c 'trap \"\" HUP TERM; : {name}; sleep 60; :' &); \
         echo ready; sleep 60; :"
    );
    let mut child =
        host.command(["run", "--name", &name, "--", "sh", "-c", &script]).spawn().unwrap();
    hear(&mut child, "ready");
    // Ours, its shell and the one in a session of its own.
    within(Duration::from_secs(10), || 2 < processes_with(&name).len());
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    let start = Instant::now();
    child.wait().unwrap();
    within(Duration::from_secs(2), || processes_with(&name).is_empty());
    assert!(start.elapsed() < Duration::from_secs(2));

    // What stands in for absent files is still there, and troubles nobody on the host.
    assert_ne!(listing(&host.project()), before);
    let status = host.ended(host.program("git").args(["status", "--short"]));
    assert_eq!((status.stdout.as_str(), status.stderr.as_str()), ("", ""));

    let ran = host.bulkhead(["run", "--", "true"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(listing(&host.project()), before);
    assert_eq!(groups(Path::new("/sys/fs/cgroup"), &name), Vec::<PathBuf>::new());
    let records = || listing(&host.state().join("stand-ins"));
    let tells = |it: &PathBuf| it.is_file() && fs::metadata(it).unwrap().len() != 0;
    // Its own is cleared behind the one who waited for it.
    within(Duration::from_secs(10), || !records().iter().any(tells));
    let events = fs::read_to_string(host.state().join("events.jsonl")).unwrap();
    assert!(events.contains("\"swept\""), "{events}");
}

#[test]
fn nothing_outlives_a_killed_bulkhead_of_an_ordinary_user() {
    let work = Work::of_ordinary_user();
    let before = listing(&work.host.project());
    let name = format!("killed-too-{}", std::process::id());
    let ran = work.shell(&format!(
        "\"$0\" run -- sh -c 'trap \"\" HUP TERM; (setsid sh -c \": {name}; sleep 60; :\" &); \
         echo ready; sleep 60; :' > ../said &
         until grep -q ready ../said; do sleep 0.01; done
         kill -KILL $!"
    ));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    within(Duration::from_secs(2), || processes_with(&name).is_empty());
    assert_eq!(work.shell("\"$0\" run -- true").code, Some(0));
    assert_eq!(listing(&work.host.project()), before);
}

#[test]
fn a_deadline_holds_against_whoever_ignores_it() {
    let host = Host::new();
    let name = format!("late-{}", std::process::id());
    let script = format!(
        "trap '' TERM; : {name}; sleep 100 & setsid sh -c 'trap \"\" TERM; : {name}; sleep 100; :' & \
         wait; wait"
    );
    let start = Instant::now();
    let ran = host.bulkhead(["run", "--timeout", "1s", "--", "sh", "-c", &script]);
    let took = start.elapsed();
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert!(Duration::from_secs(1) <= took && took < Duration::from_millis(2500), "{took:?}");
    // Whoever stays behind for what is left is called like the command.
    within(Duration::from_secs(1), || processes_with(&name).is_empty());
    let ran = ran_name(&host);
    within(Duration::from_secs(1), || groups(Path::new("/sys/fs/cgroup"), &ran).is_empty());
}

/// The name that the only run of `host` was given.
fn ran_name(host: &Host) -> String {
    let events = fs::read_to_string(host.state().join("events.jsonl")).unwrap();
    let last = events.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    last["sandbox"].as_str().unwrap().to_owned()
}
