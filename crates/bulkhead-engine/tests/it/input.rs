//! What programs read.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use bulkhead_spec::{Ending, Stdin};
use tokio::io::{AsyncRead, duplex};

use crate::{
    ask::{Ask, sh},
    house::{House, text},
};

fn piped(script: &str) -> Ask {
    sh(script).with(|it| it.exec.stdin = Stdin::Piped)
}

/// What `script` says and how it ends when it is fed `input`.
async fn fed(script: &str, input: impl AsyncRead + Send + Unpin + 'static) -> (Ending, String) {
    let house = House::new();
    let ran = house.run_on(piped(script), |it| it.stdin = Some(Box::new(input)));
    let outcome = ran.await.unwrap();
    (outcome.ending, text(&outcome.stdout))
}

const DONE: Ending = Ending::Exited { code: 0 };

#[expect(clippy::disallowed_methods, reason = "the host's own answer is what we compare with")]
fn sha256sum(bytes: &[u8]) -> String {
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[tokio::test]
async fn input_arrives_whole() {
    let bytes: Vec<u8> =
        (0..10 << 20_u32).map(|it: u32| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let expected = sha256sum(&bytes);
    assert_eq!(fed("exec sha256sum", std::io::Cursor::new(bytes)).await, (DONE, expected));
}

#[tokio::test]
async fn a_program_may_read_less_than_there_is() {
    let endless = tokio::io::repeat(b'x');
    assert_eq!(fed("exec head -c 5", endless).await, (DONE, "xxxxx".to_owned()));
}

#[tokio::test]
async fn a_program_may_close_its_input_and_go_on() {
    let endless = tokio::io::repeat(b'x');
    let script = "exec <&-; sleep 0.1; echo on";
    assert_eq!(fed(script, endless).await, (DONE, "on\n".to_owned()));
}

#[tokio::test]
async fn a_program_does_not_wait_for_a_caller_who_types_nothing() {
    let (_caller, silent) = duplex(1);
    assert_eq!(fed("echo done", silent).await, (DONE, "done\n".to_owned()));
}

#[tokio::test]
async fn input_ends_when_the_caller_ends_it() {
    let short = std::io::Cursor::new(b"one\ntwo\n".to_vec());
    assert_eq!(fed("wc -l; echo after", short).await, (DONE, "2\nafter\n".to_owned()));
}

#[tokio::test]
async fn there_is_nothing_to_read_by_default() {
    let house = House::new();
    assert_eq!(house.says(sh("wc -c")).await, "0\n");
    assert_eq!(house.says(piped("wc -c")).await, "0\n");
}
