//! Kills processes one by one, for kernels and hierarchies without `cgroup.kill`.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::dir;

/// How many descriptors are open at a time.
const BATCH: usize = 64;

/// Sends `SIGKILL` to every process that is in the cgroup or below it.
///
/// A number that was read may belong to somebody else by now. So each process is pinned by a
/// descriptor first, and only killed if the cgroup lists its number once more after that.
pub(super) fn all_in(cgroup: &Path) {
    for batch in dir::processes(cgroup).chunks(BATCH) {
        let pinned: Vec<_> = batch
            .iter()
            .filter_map(|pid| Some((pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?)))
            .collect();
        let still = dir::processes(cgroup);
        for (_, pidfd) in pinned.iter().filter(|(pid, _)| still.contains(pid)) {
            match pidfd_send_signal(pidfd, Signal::KILL) {
                // Whoever is not dead by this is seen by the caller, who looks whether the
                // cgroup became empty.
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Asks until the answer is yes or the deadline has passed; returns the last answer.
pub(super) fn until(deadline: Instant, mut is_so: impl FnMut() -> bool) -> bool {
    let mut pause = Duration::from_micros(200);
    loop {
        if is_so() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
