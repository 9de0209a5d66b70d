//! The host's side of an attack: what it can see, and what it cleans up.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    time::{Duration, Instant},
};

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, getuid, kill_process};

/// Whether the suite runs as root.
pub(crate) fn is_root() -> bool {
    getuid().is_root()
}

/// The session bus of this user, if there is one.
pub(crate) fn bus() -> Option<PathBuf> {
    let bus = PathBuf::from(format!("/run/user/{}/bus", getuid().as_raw()));
    bus.exists().then_some(bus)
}

/// Writes a line for whoever started this program.
pub(crate) fn say(text: &str) {
    // If nobody listens, the exit code still tells.
    writeln!(io::stdout(), "{text}").unwrap_or_default();
}

/// The processes that have `token` among their arguments, wherever they are.
pub(crate) fn processes_with(token: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |name: &str| name.parse().ok().and_then(Pid::from_raw);
    let has = |pid: &Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        line.unwrap_or_default().split(|it| *it == 0).any(|word| word == token.as_bytes())
    };
    entries.flatten().filter_map(|entry| pid(entry.file_name().to_str()?)).filter(has).collect()
}

/// Ends what an attack on `none` left behind.
pub(crate) fn kill_all_with(token: &str) {
    for pid in processes_with(token) {
        // It may have ended by itself.
        kill_process(pid, Signal::KILL).unwrap_or_default();
    }
}

/// A line of `/proc/PID/status`, as numbers.
pub(crate) fn status(pid: Pid, name: &str) -> Result<Vec<u32>, Failed> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
    let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
    let line = line.ok_or_else(|| format!("a process has no `{name}`"))?;
    Ok(line.split_whitespace().filter_map(|it| it.parse().ok()).collect())
}

/// Waits until `condition` gives something, for half a minute at most.
pub(crate) fn eventually<T>(
    what: &str,
    condition: impl FnMut() -> Option<T>,
) -> Result<T, Failed> {
    eventually_within(Duration::from_secs(30), condition)
        .ok_or_else(|| format!("waited in vain: {what}").into())
}

/// Waits until `condition` gives something, for `time` at most.
pub(crate) fn eventually_within<T>(
    time: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Instant::now() + time;
    loop {
        let found = condition();
        if found.is_some() || deadline < Instant::now() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
