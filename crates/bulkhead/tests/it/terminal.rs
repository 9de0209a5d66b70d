//! A program on a terminal of its own.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rustix::{
    fs::OFlags,
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::host::{Host, within};

/// Our end of a new terminal, and the other one.
pub(crate) fn open_terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let name = ptsname(&ours, Vec::new()).unwrap();
    let terminal = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    resize(&terminal, 30, 100);
    (ours, terminal)
}

/// A person at a terminal.
pub(crate) struct Person {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    pub(crate) terminal: OwnedFd,
    pub(crate) child: Child,
    seen: String,
}

impl Person {
    fn runs(host: &Host, args: &[&str]) -> Self {
        let (ours, terminal) = open_terminal();
        Self::starts(ours, terminal, &mut host.command(args))
    }

    /// Starts `command` on the terminal.
    pub(crate) fn starts(ours: OwnedFd, terminal: OwnedFd, command: &mut Command) -> Self {
        let stream = || terminal.try_clone().unwrap();
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm");
        let child = command.spawn().unwrap();
        let keyboard = File::from(ours);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, screen: receiver, terminal, child, seen: String::new() }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// All that was on the screen.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Waits until `text` is on the screen.
    pub(crate) fn sees(&mut self, text: &str) {
        let end = Instant::now() + Duration::from_secs(5);
        while !self.seen.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            let bytes = self.screen.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("no `{text}` in {:?}", self.seen));
            self.seen += &String::from_utf8_lossy(&bytes);
        }
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        within(Duration::from_secs(5), || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }

    pub(crate) fn mode(&self) -> Termios {
        tcgetattr(&self.terminal).unwrap()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // A test that failed has not waited for its end.
        self.child.kill().unwrap_or_default();
    }
}

pub(crate) fn resize(terminal: &OwnedFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

pub(crate) fn is_raw(mode: &Termios) -> bool {
    !mode.local_modes.contains(rustix::termios::LocalModes::ICANON)
}

#[test]
fn the_program_has_a_terminal_of_the_same_size() {
    let host = Host::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; read x; stty size; exit 4";
    let mut person = Person::runs(&host, &["run", "--", "sh", "-c", script]);
    person.sees("30 100");
    resize(&person.terminal, 40, 120);
    kill_process(Pid::from_child(&person.child), Signal::WINCH).unwrap();
    // The new size travels beside the keys, not with them.
    std::thread::sleep(Duration::from_millis(100));
    person.types("\n");
    person.sees("40 120");
    assert_eq!(person.exit_code(), Some(4));
}

#[test]
fn keys_reach_the_program_and_the_terminal_is_as_before() {
    let host = Host::new();
    let mut person = Person::runs(&host, &["run", "--", "cat"]);
    within(Duration::from_secs(5), || is_raw(&person.mode()));
    person.types("hello\n");
    person.sees("hello\r\nhello\r\n");
    person.types("\x04");
    assert_eq!(person.exit_code(), Some(0));
    assert!(!is_raw(&person.mode()));
}

#[test]
fn without_walls_a_terminal_is_passed_on_as_plain_streams() {
    let host = Host::new();
    let mut person = Person::runs(&host, &["run", "--backend", "none", "--", "cat"]);
    person.sees("all of your rights");
    person.types("hello\n");
    person.sees("hello\r\nhello\r\n");
    person.types("\x04");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn the_terminal_is_as_before_after_a_signal() {
    let host = Host::new();
    let mut person = Person::runs(&host, &["run", "--", "sleep", "60"]);
    within(Duration::from_secs(5), || is_raw(&person.mode()));
    kill_process(Pid::from_child(&person.child), Signal::TERM).unwrap();
    assert_eq!(person.exit_code(), Some(143));
    assert!(!is_raw(&person.mode()));
}

#[test]
fn ctrl_c_is_a_signal_inside_and_the_third_one_is_the_end() {
    let host = Host::new();
    let mut person =
        Person::runs(&host, &["run", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    person.sees("ready");
    person.types("\x03");
    assert_eq!(person.exit_code(), Some(130));

    let script = "trap '' INT TERM; echo ready; while :; do sleep 60; done";
    let mut person = Person::runs(&host, &["run", "--", "sh", "-c", script]);
    person.sees("ready");
    for _ in 0..3 {
        person.types("\x03");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(person.exit_code(), Some(143));
}

#[test]
fn a_program_that_answers_ctrl_c_lives_on() {
    let host = Host::new();
    let script = "trap 'echo caught' INT; echo ready; while :; do sleep 0.05; done";
    let mut person = Person::runs(&host, &["run", "--", "sh", "-c", script]);
    person.sees("ready");
    for _ in 0..5 {
        person.seen.clear();
        person.types("\x03");
        person.sees("caught");
    }
    assert!(person.child.try_wait().unwrap().is_none());
}
