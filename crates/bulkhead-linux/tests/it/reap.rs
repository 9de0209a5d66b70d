//! News of children, and that a launched program gets its signals back.

use bulkhead_linux::reap::ChildSignal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};

use super::launch::{Launch, blocked};
use super::role::play;

fn has_news(signal: &ChildSignal, wait: Timespec) -> bool {
    poll(&mut [PollFd::new(signal, PollFlags::IN)], Some(&wait)).unwrap() == 1
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const LONG: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Launches a program under the watch, and reports what was seen.
pub(super) fn watch_a_child() -> String {
    let signal = ChildSignal::watch().unwrap();
    let before = has_news(&signal, AT_ONCE);
    let mut launched = Launch::shell("cat /proc/self/status").start().unwrap();
    let ended = has_news(&signal, LONG);
    signal.clear().unwrap();
    signal.clear().unwrap();
    let cleared = !has_news(&signal, AT_ONCE);
    let (_, status) = wait(WaitOptions::NOHANG).unwrap().unwrap();
    let theirs = blocked(&launched.output());
    let ours = blocked(&std::fs::read_to_string("/proc/self/status").unwrap());
    format!(
        "before: {before}; ended: {ended}; cleared: {cleared}; status: {:?}; \
         blocked here: {ours:x}, there: {theirs:x}\n",
        status.exit_status()
    )
}

#[test]
fn a_child_that_ends_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    // Signal 17 is the bit.
    assert_eq!(
        play("watch a child", directory.path()),
        "before: false; ended: true; cleared: true; status: Some(0); \
         blocked here: 10000, there: 0\n"
    );
}
