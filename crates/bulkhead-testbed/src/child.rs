//! A daemon that is our child, and what it leaves.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    mount::{UnmountFlags, unmount},
    process::{Pid, Signal, kill_process},
};

use crate::Reason;

/// How long a daemon may take to come or to go.
const PATIENCE: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(50);

/// Starts `command` with its output in `DIR/log`.
pub(crate) fn launch(command: &mut Command, dir: &Path) -> Result<Child, Reason> {
    let log = File::options().append(true).create(true).open(dir.join("log"));
    let log = log.and_then(|log| Ok((log.try_clone()?, log)));
    let (stdout, stderr) = log.map_err(|error| error.to_string())?;
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
    child.map_err(|error| {
        format!("could not start {}: {error}", command.get_program().display())
    })
}

/// Waits until `answers`, as long as the daemon lives.
pub(crate) fn wait(
    child: &mut Child,
    dir: &Path,
    answers: impl Fn() -> bool,
) -> Result<(), Reason> {
    let deadline = Instant::now() + PATIENCE;
    while !answers() {
        let ended = child.try_wait().is_ok_and(|status| status.is_some());
        if ended || deadline < Instant::now() {
            let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
            return Err(format!(
                "it does not answer: {}",
                log.lines().last().unwrap_or_default()
            ));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Asks it to end, so that it takes its helpers with it and unmounts its data.
pub(crate) fn stop(daemon: &mut Child) {
    let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
    let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    let deadline = Instant::now() + PATIENCE;
    while asked && Instant::now() < deadline {
        match daemon.try_wait() {
            Ok(None) => thread::sleep(PAUSE),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    drop(daemon.kill());
    drop(daemon.wait());
}

/// Ends every process that has `mark` among its arguments, and waits until it is gone.
pub(crate) fn end_all(mark: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = with(mark);
        if found.is_empty() || deadline < Instant::now() {
            return;
        }
        for pid in found {
            // It may have ended meanwhile.
            kill_process(pid, Signal::KILL).unwrap_or_default();
        }
        thread::sleep(PAUSE);
    }
}

fn with(mark: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let marked = |pid: &Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        String::from_utf8_lossy(&line.unwrap_or_default()).contains(mark)
    };
    pids.filter_map(Pid::from_raw).filter(marked).collect()
}

/// Ends every mount below `dir`, so that it can be removed.
pub(crate) fn unmount_all(dir: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let targets = mounts.lines().filter_map(|it| it.split(' ').nth(4)).map(Path::new);
    let mut inner: Vec<&Path> = targets.filter(|it| it.starts_with(dir)).collect();
    inner.sort_by_key(|it| std::cmp::Reverse(it.components().count()));
    for target in inner {
        // What is left is told by the directory that cannot be removed.
        unmount(target, UnmountFlags::DETACH).unwrap_or_default();
    }
}
