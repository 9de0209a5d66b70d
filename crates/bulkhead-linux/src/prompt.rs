//! To be let at the processor soon after waking.
//!
//! What stands between a caller and a program inside does little and is waited for. On a busy host
//! each of its wakings would wait for whoever runs to use up a whole turn, and one call takes several
//! wakings. Who asks for short turns waits less, and gets no more of the processor for it.

use rustix::io::Errno;

use crate::sys;

/// A turn of those who ask here; the usual one is several times as long.
const TURN: u64 = 300_000;

/// Who has short turns, besides the thread that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Nobody.
    Usual,
    /// Those that it starts, until they [give them up](give_up).
    Alike,
}

/// What `sched_setattr` reads, in its first version.
#[derive(Default)]
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

impl Attributes {
    const SIZE: usize = size_of::<Self>();

    /// Those of this thread.
    fn read() -> Result<Self, Errno> {
        let mut attributes = Self::default();
        let into = (&raw mut attributes).expose_provenance();
        // SAFETY: the kernel writes at most the size that it is told; 0 is this thread.
        unsafe { sys::call(libc::SYS_sched_getattr, [0, into, Self::SIZE, 0, 0]) }?;
        Ok(attributes)
    }

    fn set(&self) -> Result<(), Errno> {
        let from = (&raw const *self).expose_provenance();
        // SAFETY: it is a whole `sched_attr` that says its size.
        unsafe { sys::call(libc::SYS_sched_setattr, [0, from, 0, 0, 0]) }.map(drop)
    }
}

/// Asks for short turns for this thread.
///
/// Nothing depends on it: a kernel before 6.12 knows no such wish, and a thread that is not scheduled
/// in the ordinary way, or was favoured by `nice`, is left as it is.
pub fn ask(children: Children) {
    let Ok(attributes) = Attributes::read() else { return };
    if attributes.policy != libc::SCHED_OTHER as u32 || attributes.nice < 0 {
        return;
    }
    let flags = match children {
        Children::Usual => libc::SCHED_FLAG_RESET_ON_FORK as u64,
        Children::Alike => 0,
    };
    let asked = Attributes { flags, runtime: TURN, ..attributes };
    asked.set().unwrap_or_default();
}

/// Has usual turns again. Allocates nothing: it runs in a child that shares memory.
pub fn give_up() {
    match Attributes::read() {
        Ok(attributes) if attributes.runtime == TURN => {
            let usual = Attributes { flags: 0, runtime: 0, ..attributes };
            usual.set().unwrap_or_default();
        }
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{Attributes, Children, TURN, ask, give_up};

    fn turn() -> u64 {
        Attributes::read().unwrap().runtime
    }

    #[test]
    fn short_turns_are_for_those_who_ask() {
        let ours = thread::spawn(|| {
            let usual = turn();
            ask(Children::Usual);
            let child = thread::spawn(turn).join().unwrap();
            let asked = turn();
            ask(Children::Alike);
            let (alike, given_up) = thread::spawn(|| {
                let alike = turn();
                give_up();
                (alike, turn())
            })
            .join()
            .unwrap();
            (usual, asked, child, alike, given_up)
        });
        let (usual, asked, child, alike, given_up) = ours.join().unwrap();
        // A kernel that knows no such wish says 0 for everybody.
        let short = if usual == 0 { 0 } else { TURN };
        assert_eq!((asked, alike), (short, short));
        assert_eq!((child, given_up), (usual, usual));
    }
}
