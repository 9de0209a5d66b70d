//! Programs on a terminal.

use bulkhead_engine::Control;
use bulkhead_spec::{Ending, Terminal};

use crate::{
    ask::{Ask, sh},
    house::{House, text},
};

const SIZE: Terminal = Terminal { rows: 40, columns: 100 };

fn on_terminal(script: &str) -> Ask {
    sh(script).with(|it| it.exec.terminal = Some(SIZE))
}

#[tokio::test]
async fn a_terminal_is_one_and_has_its_size() {
    let house = House::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size";
    assert_eq!(house.says(on_terminal(script)).await, "40 100\r\n");
}

#[tokio::test]
async fn without_one_there_is_none() {
    let house = House::new();
    let script = "! test -t 0 && ! test -t 1 && ! test -t 2 && ! (: </dev/tty) 2>/dev/null";
    assert_eq!(house.says(sh(script)).await, "");
}

#[tokio::test]
async fn both_streams_are_the_terminal() {
    let house = House::new();
    let outcome = house.run(on_terminal("echo said; echo complained >&2")).await.unwrap();
    assert_eq!(text(&outcome.stdout), "said\r\ncomplained\r\n");
    assert_eq!(outcome.stderr.bytes, 0);
}

#[tokio::test]
async fn a_program_on_a_terminal_has_its_own_code() {
    let house = House::new();
    let outcome = house.run(on_terminal("exit 9")).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 9 });
}

#[tokio::test]
async fn a_new_size_reaches_the_program() {
    let house = House::new();
    let script = "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut running = house.start(on_terminal(script));
    running.ready().await;
    running.tell(Control::Resize(Terminal { rows: 50, columns: 132 }));
    assert_eq!(running.line().await, "50 132");
    assert_eq!(running.end().await.ending, Ending::Exited { code: 7 });
}

#[tokio::test]
async fn what_is_typed_is_read_and_echoed() {
    let house = House::new();
    let mut running = house.start(on_terminal("echo ready; read word; echo \"<$word>\""));
    running.ready().await;
    running.types(b"hello\n").await;
    assert_eq!(running.line().await, "hello");
    assert_eq!(running.line().await, "<hello>");
    assert_eq!(running.end().await.ending, Ending::Exited { code: 0 });
}

#[tokio::test]
async fn control_c_interrupts() {
    let house = House::new();
    let mut running = house.start(on_terminal("echo ready; exec sleep 1000"));
    let processes = running.ready().await;
    running.types(b"\x03").await;
    assert_eq!(running.end().await.ending, Ending::Signaled { signal: 2 });
    assert!(processes.left().is_empty(), "{:?}", processes.left());
}

#[tokio::test]
async fn control_d_ends_the_input() {
    let house = House::new();
    let mut running = house.start(on_terminal("echo ready; cat; echo over"));
    running.ready().await;
    running.types(b"\x04").await;
    assert_eq!(running.line().await, "over");
    assert_eq!(running.end().await.ending, Ending::Exited { code: 0 });
}

#[tokio::test]
async fn all_of_a_long_output_arrives() {
    let house = House::new();
    let outcome = house.run(on_terminal("seq 1 20000")).await.unwrap();
    let numbers = (1..=20000).map(|it| it.to_string());
    assert!(text(&outcome.stdout).split_terminator("\r\n").eq(numbers));
}

#[tokio::test]
async fn a_terminal_of_a_killed_program_is_let_go() {
    let house = House::new();
    let mut running = house.start(on_terminal("trap '' HUP; echo ready; sleep 1000"));
    let processes = running.ready().await;
    running.tell(Control::Kill);
    assert_eq!(running.end().await.ending, Ending::Canceled { signal: 9 });
    assert!(processes.left().is_empty(), "{:?}", processes.left());
}
