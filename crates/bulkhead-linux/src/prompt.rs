//! To be let at the processor soon after waking.
//!
//! What stands between a caller and a program inside does little and is waited for. On a busy host
//! each of its wakings would wait for whoever runs to use up a whole turn, and one call takes several
//! wakings. Who asks for short turns waits less, and gets no more of the processor for it.

use rustix::{io::Errno, process::Pid};

use crate::sys;

/// A turn of those who ask here. The usual one is many times as long.
///
/// There are shorter ones, but in those a new program would have had its turn by the time that it is
/// [taken back](take_back), and somebody else would get the next.
const TURN: u64 = 200_000;

/// Who has short turns, besides the thread that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Nobody.
    Usual,
    /// Those that it starts, until it [takes them back](take_back).
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

    /// Those of a thread, by its number; 0 is this one.
    fn read(of: usize) -> Result<Self, Errno> {
        let mut attributes = Self::default();
        let into = (&raw mut attributes).expose_provenance();
        // SAFETY: the kernel writes at most the size that it is told.
        unsafe { sys::call(libc::SYS_sched_getattr, [of, into, Self::SIZE, 0, 0]) }?;
        Ok(attributes)
    }

    fn set(&self, of: usize) -> Result<(), Errno> {
        let from = (&raw const *self).expose_provenance();
        // SAFETY: it is a whole `sched_attr` that says its size.
        unsafe { sys::call(libc::SYS_sched_setattr, [of, from, 0, 0, 0]) }.map(drop)
    }
}

/// Asks for short turns for this thread.
///
/// Nothing depends on it: a kernel before 6.12 knows no such wish, and a thread that is not scheduled
/// in the ordinary way, or was favoured by `nice`, is left as it is.
pub fn ask(children: Children) {
    let Ok(attributes) = Attributes::read(0) else { return };
    if attributes.policy != libc::SCHED_OTHER as u32 || attributes.nice < 0 {
        return;
    }
    let flags = match children {
        Children::Usual => libc::SCHED_FLAG_RESET_ON_FORK as u64,
        Children::Alike => 0,
    };
    let asked = Attributes { flags, runtime: TURN, ..attributes };
    asked.set(0).unwrap_or_default();
}

/// Gives `child`, which was just executed, usual turns.
///
/// It has short ones until here because the kernel looks for another processor for whoever executes a
/// program, and there it would wait for whoever runs to use up a whole turn. A program that starts
/// others sooner than this leaves them what it could ask for itself: short turns, and no more of the
/// processor.
pub fn take_back(child: Pid) {
    let child = child.as_raw_nonzero().get().unsigned_abs() as usize;
    match Attributes::read(child) {
        Ok(attributes) if attributes.runtime == TURN => {
            let usual = Attributes { flags: 0, runtime: 0, ..attributes };
            // One that has ended has no turns.
            usual.set(child).unwrap_or_default();
        }
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, thread};

    use rustix::{
        process::{Signal, WaitOptions, kill_process, waitpid},
        thread::gettid,
    };

    use super::{Attributes, Children, TURN, ask, take_back};
    use crate::launch::{ControllingTerminal, Program, launch};

    fn turn() -> u64 {
        Attributes::read(0).unwrap().runtime
    }

    #[test]
    fn short_turns_are_for_those_who_ask() {
        let ours = thread::spawn(|| {
            let usual = turn();
            ask(Children::Usual);
            let child = thread::spawn(turn).join().unwrap();
            let asked = turn();
            ask(Children::Alike);
            let (alike, taken_back) = thread::spawn(|| {
                let alike = turn();
                take_back(gettid());
                (alike, turn())
            })
            .join()
            .unwrap();
            (usual, asked, child, alike, taken_back)
        });
        let (usual, asked, child, alike, taken_back) = ours.join().unwrap();
        // A kernel that knows no such wish says 0 for everybody.
        let short = if usual == 0 { 0 } else { TURN };
        assert_eq!((asked, alike), (short, short));
        assert_eq!((child, taken_back), (usual, usual));
    }

    #[test]
    fn a_program_has_usual_turns_when_its_start_is_told() {
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap().into();
        let sleeper = Program {
            candidates: vec![c"/bin/sleep".to_owned()],
            argv: vec![c"sleep".to_owned(), c"60".to_owned()],
            env: Vec::new(),
            dir: c"/".to_owned(),
            stdio: [null(), null(), null()],
            terminal: ControllingTerminal::None,
        };
        let ours = thread::spawn(move || {
            let usual = turn();
            ask(Children::Alike);
            let pid = launch(sleeper).unwrap();
            let number = pid.as_raw_nonzero().get().unsigned_abs() as usize;
            let its = Attributes::read(number).unwrap().runtime;
            kill_process(pid, Signal::KILL).unwrap();
            waitpid(Some(pid), WaitOptions::empty()).unwrap();
            (usual, its)
        });
        let (usual, its) = ours.join().unwrap();
        assert_eq!(its, usual);
    }
}
