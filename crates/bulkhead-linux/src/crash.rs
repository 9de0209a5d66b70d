//! Places where a debug build can be made to die, so that drills see what is left behind.
//!
//! With `BULKHEAD_CRASH_AT=n` a process kills itself at the n-th place that it comes to. A release
//! build has no such places.

/// A place between two steps of which the first may be done and the second not.
pub fn point() {
    #[cfg(debug_assertions)]
    armed::pass();
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    };

    use rustix::process::{Signal, getpid, kill_process};

    const AT: &str = "BULKHEAD_CRASH_AT";

    static CHOSEN: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var_os(AT)?.to_str()?.parse().ok());
    static PASSED: AtomicU64 = AtomicU64::new(0);

    pub(super) fn pass() {
        let Some(chosen) = *CHOSEN else { return };
        if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == chosen {
            // As abrupt as it gets; nothing of ours runs after it.
            kill_process(getpid(), Signal::KILL).unwrap_or_default();
        }
    }
}
