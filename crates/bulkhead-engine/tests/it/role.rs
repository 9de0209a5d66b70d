//! This test program again, as a Bulkhead of its own that can be killed.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use bulkhead_engine::Console;
use bulkhead_policy::Policy;
use bulkhead_spec::Bytes;

use crate::{
    ask::{Ask, sh},
    house::{engine, native},
    traces::MARK,
};

const VARIABLE: &str = "BULKHEAD_TEST_ROLE";

/// What the other process does, in the house at a path, under a name for its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs one program that says when it is ready and then waits for ever.
    Stay,
    /// Runs short programs without end.
    Churn,
}

/// The other process. Dropping it kills it, and nothing but it.
pub(crate) struct Player {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Player {
    #[expect(
        clippy::disallowed_methods,
        reason = "a sandbox cannot play the one who builds them"
    )]
    pub(crate) fn start(role: Role, house: &Path, id: &str) -> Self {
        let arguments =
            ["--exact", "role::a_role", "--ignored", "--nocapture", "--test-threads=1"];
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env(VARIABLE, format!("{role:?} {id} {}", house.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Waits until its program has said that it is ready.
    pub(crate) fn ready(&mut self) {
        let mut line = String::new();
        // The words of the test program come before it, on the same line.
        while !line.ends_with("ready\n") {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it never was ready");
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}

/// What the other process does; not a test by itself.
#[tokio::test]
#[ignore = "a role in other tests, played in a process of its own"]
async fn a_role() {
    let role = std::env::var_os(VARIABLE).expect("this is not a test by itself");
    let words: Vec<&str> = role.to_str().unwrap().splitn(3, ' ').collect();
    let (role, id, house) = (words[0], words[1], PathBuf::from(words[2]));
    let work = house.join("work");
    let engine = engine(&house, Policy::default(), vec![native(&house)]);
    let ask = |script: &str, id: &str| -> Ask {
        sh(script).on(&work).with(|it| {
            it.exec.env.insert(MARK.into(), id.into());
        })
    };
    let (mut console, control) = Console::captured(Bytes(1));
    if role == "Stay" {
        let ours = rustix::io::dup(rustix::stdio::stdout()).unwrap();
        console.stdout = Some(Box::new(tokio::fs::File::from_std(ours.into())));
        let ask = ask("(setsid sleep 1000 &); echo ready; exec sleep 1000", id);
        let placed = engine.prepare(id, ask.spec, ask.exec).await.unwrap();
        engine.run(&placed, console).await.unwrap();
    }
    drop(control);
    for at in 0.. {
        let id = format!("{id}-{at}");
        let ask = ask("true", &id);
        let placed = engine.prepare(&id, ask.spec, ask.exec).await.unwrap();
        let (console, _control) = Console::captured(Bytes(1));
        engine.run(&placed, console).await.unwrap();
    }
}
