//! This test program again, in a role of its own: for what a process cannot take back.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::panic;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Plays `role` on `directory` in a new process, and returns what it reports.
///
/// The process has every capability, in a user namespace of its own, as a sandbox's first has.
pub(crate) fn play(role: &str, directory: &Path) -> String {
    #[expect(clippy::disallowed_methods, reason = "it is this program, and outside a sandbox")]
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "role::a_role", "--ignored", "--nocapture", "--test-threads=1"])
        .env("BULKHEAD_TEST_ROLE", role)
        .current_dir(directory);
    let users = format!("0 {} 1", rustix::process::getuid().as_raw());
    let groups = format!("0 {} 1", rustix::process::getgid().as_raw());
    // SAFETY: the closure makes system calls, and allocates nothing but on a failure that ends it.
    unsafe { command.pre_exec(move || enter_user_namespace(&users, &groups)) };
    let output = command.output().unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{role}: {}\n{report}", output.status);
    // The harness is content with a role that it does not find.
    assert_ne!(report, "", "{role} reported nothing");
    report
}

fn enter_user_namespace(users: &str, groups: &str) -> io::Result<()> {
    // SAFETY: it concerns this process alone, which has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", users)?;
    fs::write("/proc/self/gid_map", groups)
}

/// What the re-executed program does; not a test by itself.
#[test]
#[ignore = "a role in other tests, played in a process of its own"]
fn a_role() {
    let role = std::env::var_os("BULKHEAD_TEST_ROLE").unwrap();
    // The harness has a thread of its own. A fork has one, as what it stands for has.
    // SAFETY: no other thread of the harness does anything by now, so no lock is held.
    match unsafe { libc::fork() } {
        0 => {
            let played = panic::catch_unwind(|| report(role.to_str().unwrap()));
            // SAFETY: it ends the process without running what belongs to the harness.
            unsafe { libc::_exit(if played.is_ok() { 0 } else { 101 }) };
        }
        child => {
            let child = Pid::from_raw(child).unwrap();
            let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0), "{status:?}");
        }
    }
}

fn report(role: &str) {
    let report = match role {
        "behind walls" => super::walls::behind_walls(),
        "write behind walls" => super::landlock::write_behind_walls(),
        "watch a child" => super::reap::watch_a_child(),
        "bear from any descriptor" => super::birth::bear_from_any_descriptor(),
        "take descriptors" => super::inherited::take_descriptors(),
        other => panic!("no such role: {other}"),
    };
    // The harness writes to the other stream.
    io::stderr().write_all(report.as_bytes()).unwrap();
}
