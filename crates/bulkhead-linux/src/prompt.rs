//! To be let at the processor soon after waking.
//!
//! What stands between a caller and a program inside does little and is waited for. On a busy host
//! each of its wakings would wait for whoever runs to use up a whole turn, and one call takes several
//! wakings. Who asks for short turns waits less, and gets no more of the processor for it.

use crate::sys;

/// A turn of those who ask here; the usual one is several times as long.
const TURN: u64 = 300_000;

/// What `sched_setattr` reads, in its first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for short turns for this thread, and for none that it starts.
///
/// Nothing depends on it: a kernel before 6.12 knows no such wish, and a thread that is not scheduled
/// in the ordinary way, or was favoured by `nice`, is left as it is.
pub fn ask() {
    let mut attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 0,
        deadline: 0,
        period: 0,
    };
    let into = (&raw mut attributes).expose_provenance();
    // SAFETY: the kernel writes at most the size that it is told; 0 is this thread.
    let known =
        unsafe { sys::call(libc::SYS_sched_getattr, [0, into, size_of::<Attributes>(), 0, 0]) };
    let ordinary = attributes.policy == libc::SCHED_OTHER as u32;
    if known.is_err() || !ordinary || attributes.nice < 0 {
        return;
    }
    // Without this flag programs inside would have short turns as well.
    attributes.flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.runtime = TURN;
    let from = (&raw const attributes).expose_provenance();
    // SAFETY: `attributes` is a whole `sched_attr` that says its size.
    let asked = unsafe { sys::call(libc::SYS_sched_setattr, [0, from, 0, 0, 0]) };
    asked.map(drop).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::{Attributes, TURN, ask, sys};

    fn turn() -> u64 {
        let mut bytes = [0_u64; size_of::<Attributes>() / 8];
        let at = bytes.as_mut_ptr().expose_provenance();
        // SAFETY: the kernel writes at most 48 bytes; 0 is this thread.
        unsafe { sys::call(libc::SYS_sched_getattr, [0, at, 48, 0, 0]) }.unwrap();
        bytes[3]
    }

    #[test]
    fn short_turns_are_this_threads_alone() {
        std::thread::spawn(|| {
            let usual = turn();
            ask();
            // A kernel that knows no such wish says 0 for everybody.
            assert!(turn() == TURN || usual == 0, "{}", turn());
            let child = std::thread::spawn(turn).join().unwrap();
            assert_eq!(child, usual);
        })
        .join()
        .unwrap();
    }
}
