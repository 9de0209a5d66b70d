//! How a launched program finds itself, and what is said of one that cannot be launched.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use bulkhead_linux::launch::{ControllingTerminal, LaunchFailed, Program, Stage, launch};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

/// A program to launch, and where its output can be read.
pub(super) struct Launch {
    program: Program,
    output: File,
}

/// A program that was launched.
pub(super) struct Launched {
    pid: Pid,
    output: File,
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

impl Launch {
    fn new(candidates: &[&str], argv: &[&str]) -> Self {
        let (output, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let program = Program {
            candidates: candidates.iter().map(|it| text(it)).collect(),
            argv: argv.iter().map(|it| text(it)).collect(),
            env: vec![text("PATH=/usr/bin:/bin")],
            dir: text("/"),
            stdio: [
                File::open("/dev/null").unwrap().into(),
                theirs.try_clone().unwrap(),
                theirs,
            ],
            terminal: ControllingTerminal::None,
        };
        Self { program, output: output.into() }
    }

    pub(super) fn shell(script: &str) -> Self {
        Self::new(&["/bin/sh"], &["sh", "-euc", script])
    }

    fn dir(mut self, dir: &str) -> Self {
        self.program.dir = text(dir);
        self
    }

    fn env(mut self, env: &[&str]) -> Self {
        self.program.env = env.iter().map(|it| text(it)).collect();
        self
    }

    /// On a terminal that becomes the program's own.
    fn on(mut self, input: OwnedFd) -> Self {
        self.program.stdio[0] = input;
        self.program.terminal = ControllingTerminal::Input;
        self
    }

    /// Launches it; the ends of its streams that are here are closed.
    pub(super) fn start(self) -> Result<Launched, LaunchFailed> {
        Ok(Launched { pid: launch(self.program)?, output: self.output })
    }

    /// Launches it, which must fail, and says where and why.
    fn fails(self) -> (Stage, Option<i32>) {
        match self.start() {
            Ok(launched) => panic!("it runs, as {:?}", launched.pid),
            Err(failed) => (failed.stage, failed.source.raw_os_error()),
        }
    }

    /// Launches it, waits for it, and returns what it printed.
    fn said(self) -> String {
        let mut launched = self.start().unwrap();
        let output = launched.output();
        assert_eq!(launched.wait().exit_status(), Some(0), "{output}");
        output
    }
}

impl Launched {
    /// All that it prints.
    pub(super) fn output(&mut self) -> String {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        output
    }

    fn wait(self) -> WaitStatus {
        waitpid(Some(self.pid), WaitOptions::empty()).unwrap().unwrap().1
    }
}

/// Launches a shell, and returns what it printed.
pub(super) fn shell(script: &str) -> String {
    Launch::shell(script).said()
}

/// The signals in a line of `/proc/PID/status`.
fn signals(status: &str, line: &str) -> u64 {
    let value = status.lines().find_map(|it| it.strip_prefix(line)).unwrap();
    u64::from_str_radix(value.trim(), 16).unwrap()
}

/// The signals that a process with this status holds back.
pub(super) fn blocked(status: &str) -> u64 {
    signals(status, "SigBlk:")
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[test]
fn a_program_gets_its_arguments_variables_and_directory_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let here = directory.to_str().unwrap();
    assert_eq!(
        Launch::new(&["/bin/pwd"], &["pwd"]).dir(here).env(&[]).said(),
        format!("{here}\n")
    );
    let env = ["A=1", "B=two words", "C="];
    let printed = Launch::new(&["/usr/bin/env"], &["env"]).env(&env).said();
    assert_eq!(printed, "A=1\nB=two words\nC=\n");
    let echo = Launch::new(&["/bin/echo"], &["echo", "", "a b", "c"]).said();
    assert_eq!(echo, " a b c\n");
    assert_eq!(shell("umask"), "0022\n");
}

#[test]
fn no_descriptor_but_the_three_streams_is_inherited() {
    // One that an exec would keep.
    let left_open = rustix::io::dup(File::open("/dev/null").unwrap()).unwrap();
    assert!(left_open.as_raw_fd() > 2);
    // The shell lists the directory first; what it opened for that is gone when it looks.
    let script = "for it in /proc/$$/fd/*; do if [ -e $it ]; then echo ${it##*/}; fi; done";
    assert_eq!(shell(script), "0\n1\n2\n");
}

#[test]
fn signals_are_as_a_program_expects_them() {
    // SAFETY: an all-zero set is a valid one, and is set up next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a signal set of ours.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    let nothing = std::ptr::null_mut();
    // SAFETY: both sets are valid or null. The mask is that of this test's thread.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, nothing) };
    let ours = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert_eq!(blocked(&ours), bit(libc::SIGUSR1));
    let ignored = |status: &str| signals(status, "SigIgn:");
    assert_ne!(ignored(&ours) & bit(libc::SIGPIPE), 0, "Rust's runtime ignores it");

    let theirs = Launch::new(&["/bin/cat"], &["cat", "/proc/self/status"]).said();
    assert_eq!((blocked(&theirs), ignored(&theirs) & bit(libc::SIGPIPE)), (0, 0));
}

#[test]
fn a_program_leads_its_own_session() {
    let script = "read -r pid name state parent group session rest < /proc/$$/stat
        echo $((pid - $$)) $((group - pid)) $((session - pid)) $parent";
    assert_eq!(shell(script), format!("0 0 0 {}\n", std::process::id()));
}

#[test]
fn a_terminal_becomes_the_programs_own() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
    let said = Launch::shell("[ -t 0 ]; echo typed > /dev/tty; echo ok").on(terminal).said();
    assert_eq!(said, "ok\n");
    let mut typed = [0; 16];
    let count = rustix::io::read(&master, &mut typed).unwrap();
    assert_eq!(&typed[..count], b"typed\r\n");
}

#[test]
fn the_first_candidate_that_is_there_is_run() {
    let launch =
        Launch::new(&["/nowhere/sh", "/etc/passwd/sh", "/bin/sh"], &["sh", "-c", "echo a"]);
    assert_eq!(launch.said(), "a\n");
}

#[test]
fn a_missing_program_is_told_from_one_that_cannot_be_run() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.path().join(name);
        fs::write(&path, "neither ELF nor script").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (data, junk) = (put("data", 0o644), put("junk", 0o755));
    let fails = |candidates: &[&str]| Launch::new(candidates, &["it"]).fails();
    assert_eq!(fails(&["/nowhere"]), (Stage::Execute, Some(libc::ENOENT)));
    assert_eq!(fails(&["/etc/passwd/sh", "/nowhere"]), (Stage::Execute, Some(libc::ENOENT)));
    assert_eq!(fails(&[]), (Stage::Execute, Some(libc::ENOENT)));
    assert_eq!(fails(&[&data, "/nowhere"]), (Stage::Execute, Some(libc::EACCES)));
    assert_eq!(fails(&[&junk]), (Stage::Execute, Some(libc::ENOEXEC)));
}

#[test]
fn a_directory_that_cannot_be_entered_is_told() {
    let in_dir = |dir: &str| Launch::shell("true").dir(dir).fails();
    assert_eq!(in_dir("/nowhere"), (Stage::Dir, Some(libc::ENOENT)));
    assert_eq!(in_dir("/etc/passwd"), (Stage::Dir, Some(libc::ENOTDIR)));
}

#[test]
fn a_directory_that_was_removed_is_no_place_to_start() {
    let directory = tempfile::tempdir().unwrap();
    let open = File::open(directory.path()).unwrap();
    drop(directory);
    let removed = format!("/proc/self/fd/{}", open.as_raw_fd());
    assert!(Path::new(&removed).is_dir());
    // The child has closed it before it looks.
    assert_eq!(Launch::shell("true").dir(&removed).fails(), (Stage::Dir, Some(libc::ENOENT)));
}

#[test]
fn an_input_that_is_no_terminal_cannot_become_one() {
    let (input, _far) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let failed = Launch::shell("true").on(input).fails();
    assert_eq!(failed, (Stage::Prepare, Some(libc::ENOTTY)));
}

#[test]
fn a_program_may_use_every_processor_that_whoever_starts_it_may() {
    const ALLOWED: &str = "Cpus_allowed_list:";
    let allowed = |status: &str| {
        let line = status.lines().find(|it| it.starts_with(ALLOWED)).unwrap();
        line.trim_start_matches(ALLOWED).trim().to_owned()
    };
    let ours = || allowed(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let before = ours();
    assert_eq!(allowed(&shell("cat /proc/self/status")), before);
    assert_eq!(ours(), before);
    // One that cannot be started leaves nobody where it was to begin.
    Launch::new(&["/nowhere"], &["nowhere"]).fails();
    assert_eq!(ours(), before);
}
