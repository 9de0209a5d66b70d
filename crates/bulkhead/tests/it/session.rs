//! A person who has a session on a terminal: keys, windows and hangups come from the kernel.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr},
};

use crate::{
    host::{Host, processes_with, within},
    terminal::{Person, is_raw, open_terminal, resize},
};

/// The command in a session of its own, of which its stdin is the terminal.
fn in_session(host: &Host, args: &[&str]) -> Command {
    let mut command = host.program("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_bulkhead")]).args(args);
    command
}

fn person(host: &Host, args: &[&str]) -> Person {
    let (ours, terminal) = open_terminal();
    Person::starts(ours, terminal, &mut in_session(host, args))
}

#[test]
fn a_window_that_changes_is_known_inside() {
    let host = Host::new();
    let script = "trap 'echo now $(stty size)' WINCH; echo then $(stty size); \
                  while :; do sleep 0.05; done";
    let mut person = person(&host, &["run", "--", "sh", "-c", script]);
    person.sees("then 30 100");
    for (rows, columns) in [(40, 120), (10, 20)] {
        resize(&person.terminal, rows, columns);
        person.sees(&format!("now {rows} {columns}"));
    }
}

#[test]
fn a_shell_has_job_control_of_its_own() {
    let host = Host::new();
    let mut person = person(&host, &["run", "--", "bash", "--norc", "--noprofile", "-i"]);
    person.types("PS1=; echo begun-$?\n");
    person.sees("begun-0");
    assert!(!person.seen().contains("no job control"), "{}", person.seen());
    // Said by the job itself, so that the keys which follow reach it and not the shell.
    let job = |word: &str| format!("sh -c 'echo {word}-$((1 + 1)); exec sleep 60'\n");
    person.types(&job("first"));
    person.sees("first-2");
    person.types("\x1a");
    person.sees("Stopped");
    person.types("kill -KILL %1; echo killed-$?\n");
    person.sees("killed-0");
    person.types(&job("second"));
    person.sees("second-2");
    person.types("\x03");
    person.types("echo interrupted-$?\n");
    person.sees("interrupted-130");
    person.types("exit 6\n");
    assert_eq!(person.exit_code(), Some(6));
}

/// Runs it on a terminal without echo, and compares the terminal before and after.
fn restored(flags: &[&str], script: &str, then: impl FnOnce(&mut Person)) -> Option<i32> {
    let host = Host::new();
    let (ours, terminal) = open_terminal();
    // Something that nobody would restore by chance.
    let mut mode = tcgetattr(&terminal).unwrap();
    mode.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Now, &mode).unwrap();
    let args = [&["run"], flags, &["--", "sh", "-c", script]].concat();
    let mut person = Person::starts(ours, terminal, &mut in_session(&host, &args));
    then(&mut person);
    let code = person.exit_code();
    assert_eq!(format!("{:?}", person.mode()), format!("{mode:?}"));
    code
}

#[test]
fn the_terminal_is_exactly_as_before_however_it_ends() {
    let nothing = |_: &mut Person| {};
    let sleep = "echo ready; exec sleep 60";
    assert_eq!(restored(&[], "stty raw; exit 3", nothing), Some(3));
    assert_eq!(restored(&[], "kill -KILL $$", nothing), Some(137));
    assert_eq!(restored(&["--timeout", "300ms"], sleep, nothing), Some(124));
    assert_eq!(restored(&["--output", "1k"], "yes", nothing), Some(1));
    let terminated = restored(&[], sleep, |person| {
        person.sees("ready");
        assert!(is_raw(&person.mode()));
        kill_process(Pid::from_child(&person.child), Signal::TERM).unwrap();
    });
    assert_eq!(terminated, Some(143));
    let interrupted = restored(&[], sleep, |person| {
        person.sees("ready");
        person.types("\x03");
    });
    assert_eq!(interrupted, Some(130));
    assert_eq!(restored(&["--workdir", "/nowhere"], "true", nothing), Some(125));
}

#[test]
fn a_terminal_that_is_hung_up_ends_everything() {
    let host = Host::new();
    let mark = format!("mark-{}-hangup-end", std::process::id());
    let script = format!("trap '' HUP; (setsid sh -c ': {mark}; sleep 60; :' &); sleep 60; :");
    let (ours, terminal) = open_terminal();
    let mut command = in_session(&host, &["run", "--", "sh", "-c", &script]);
    let stream = || terminal.try_clone().unwrap();
    command.stdin(stream()).stdout(stream()).stderr(stream());
    let mut child = command.spawn().unwrap();
    within(Duration::from_secs(10), || 1 < inside(&mark));
    drop(ours);
    within(Duration::from_secs(3), || child.try_wait().unwrap().is_some());
    assert_eq!((child.wait().unwrap().code(), inside(&mark)), (Some(129), 0));
}

/// How many processes with `mark` there are, other than the command that was given it.
fn inside(mark: &str) -> usize {
    processes_with(mark).iter().filter(|it| !it.contains("bulkhead")).count()
}

/// The command with a terminal to read from and a pipe to write to.
fn half(host: &Host, args: &[&str]) -> (Option<i32>, String) {
    let (ours, terminal) = open_terminal();
    let mut command = host.command(args);
    let mut child =
        command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    drop(ours);
    (child.wait().unwrap().code(), said)
}

#[test]
fn half_a_terminal_is_one_only_if_asked_for() {
    let host = Host::new();
    let script = "test -t 0 && test -t 1 && stty size || echo none; cat < /dev/null";
    let run =
        |flags: &[&str]| half(&host, &[&["run"], flags, &["--", "sh", "-c", script]].concat());
    assert_eq!(run(&[]), (Some(0), "none\n".to_owned()));
    assert_eq!(run(&["-t"]), (Some(0), "30 100\r\n".to_owned()));
    // Nobody types, and nobody said that somebody would: there is nothing to read.
    assert_eq!(half(&host, &["run", "--", "cat"]), (Some(0), String::new()));
}
