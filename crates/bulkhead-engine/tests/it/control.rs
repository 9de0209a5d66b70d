//! What a caller does to a running program.

use bulkhead_engine::Control;
use bulkhead_spec::Ending;
use rustix::process::Signal;

use crate::{ask::sh, house::House};

/// How `script` ends, which says that it is ready and is then told `controls`.
async fn told(script: &str, controls: &[Control]) -> Ending {
    let house = House::new();
    let mut running = house.start(sh(script));
    let processes = running.ready().await;
    for control in controls {
        running.tell(*control);
    }
    let outcome = running.end().await;
    assert!(processes.left().is_empty(), "{:?}", processes.left());
    outcome.ending
}

#[tokio::test]
async fn a_program_that_dies_of_its_callers_signal_was_cancelled() {
    let ending = told("echo ready; exec sleep 1000", &[Control::Signal(Signal::INT)]).await;
    assert_eq!(ending, Ending::Canceled { signal: 2 });
    assert_eq!(ending.exit_code(), 130);
}

#[tokio::test]
async fn a_program_that_catches_its_callers_signal_has_its_own_code() {
    let script = "trap 'exit 42' INT; echo ready; while :; do sleep 0.02; done";
    let ending = told(script, &[Control::Signal(Signal::INT)]).await;
    assert_eq!(ending, Ending::Exited { code: 42 });
}

#[tokio::test]
async fn a_signal_reaches_the_whole_process_group() {
    let script = "trap 'wait $!; exit $?' TERM
        sh -c 'trap \"exit 9\" TERM; echo ready; while :; do sleep 0.02; done' & wait $!";
    let ending = told(script, &[Control::Signal(Signal::TERM)]).await;
    assert_eq!(ending, Ending::Exited { code: 9 });
}

#[tokio::test]
async fn a_signal_that_somebody_else_sent_is_not_the_callers() {
    let script = "trap 'heard=1' INT; echo ready; while [ -z \"$heard\" ]; do sleep 0.02; done
        kill -TERM $$";
    let ending = told(script, &[Control::Signal(Signal::INT)]).await;
    assert_eq!(ending, Ending::Signaled { signal: 15 });
}

const TREE: &str = "trap '' INT TERM HUP; (setsid setsid sleep 1000 &)
    setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & echo ready; kill -STOP $$";

#[tokio::test]
async fn kill_ends_the_whole_tree() {
    let ending = told(TREE, &[Control::Kill]).await;
    assert_eq!(ending, Ending::Canceled { signal: 9 });
}

#[tokio::test]
async fn a_kill_after_a_signal_is_known_by_that_signal() {
    let controls = [Control::Signal(Signal::INT), Control::Kill];
    assert_eq!(told(TREE, &controls).await, Ending::Canceled { signal: 2 });
}

#[tokio::test]
async fn nobody_at_the_controls_is_fine() {
    let house = House::new();
    let (console, control) = bulkhead_engine::Console::captured(bulkhead_spec::Bytes(10));
    drop(control);
    let ask = sh("sleep 0.1; exit 4");
    let placed = house.engine.place(&crate::house::new_id(), ask.spec, ask.exec).await.unwrap();
    let outcome = house.engine.run(&placed, console).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 4 });
}
