//! Being told to stop.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, hear, processes_with, within};

/// A tree of processes that ignore requests and leave their group, with `mark` in their names.
fn stubborn(mark: &str) -> String {
    format!(
        "trap '' INT TERM HUP; (setsid sh -c 'trap \"\" INT TERM HUP; : {mark}; \
         while :; do sleep 60; done' &); echo ready; while :; do sleep 60; done"
    )
}

/// Sends `signal` up to `times` to a run of such a tree, and returns its exit code.
fn told(signal: Signal, times: usize) -> Option<i32> {
    let host = Host::new();
    let mark = format!("mark-{}-{}-end", std::process::id(), signal.as_raw());
    let mut child = host.command(["run", "--", "sh", "-c", &stubborn(&mark)]).spawn().unwrap();
    hear(&mut child, "ready");
    within(Duration::from_secs(5), || !processes_with(&mark).is_empty());
    let start = Instant::now();
    for _ in 0..times {
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), signal).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    within(Duration::from_secs(3), || child.try_wait().unwrap().is_some());
    let took = start.elapsed();
    // Half a second to tidy up, and a busy machine.
    assert!(took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    child.wait().unwrap().code()
}

#[test]
fn a_request_to_end_ends_the_whole_tree_within_a_second() {
    assert_eq!(told(Signal::TERM, 1), Some(143));
}

#[test]
fn a_lost_terminal_ends_the_whole_tree_within_a_second() {
    assert_eq!(told(Signal::HUP, 1), Some(129));
}

#[test]
fn insisting_with_interrupts_ends_the_whole_tree() {
    // On a busy machine two signals of one kind may arrive as one.
    assert_eq!(told(Signal::INT, 20), Some(130));
}

#[test]
fn an_interrupt_is_the_programs_to_handle() {
    let host = Host::new();
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done";
    let mut child = host.command(["run", "--", "sh", "-c", script]).spawn().unwrap();
    hear(&mut child, "ready");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    hear(&mut child, "caught");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn the_second_interrupt_is_a_request_to_end() {
    let host = Host::new();
    let script = "trap 'echo interrupted' INT; trap 'echo asked; exit 7' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let mut child = host.command(["run", "--", "sh", "-c", script]).spawn().unwrap();
    hear(&mut child, "ready");
    for answer in ["interrupted", "asked"] {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        hear(&mut child, answer);
    }
    assert_eq!(child.wait().unwrap().code(), Some(7));
}
