//! A processor of its own for a child that works beside its parent.
//!
//! Many kernels start a child on the processor of its parent, whose turn it is, and other processors
//! that are idle look for work only at the next tick, milliseconds later. Whoever goes on working
//! beside its child would wait for it all that time.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::sys;

/// The processor that this is said on, or none that there is.
///
/// Asked of the kernel: the way without it must be found first, which takes longer than to ask twice.
pub(crate) fn here() -> usize {
    let mut processor: libc::c_uint = 0;
    let args = [(&raw mut processor).expose_provenance(), 0, 0, 0, 0];
    // SAFETY: getcpu writes one number; it may do without the other two.
    match unsafe { sys::call(libc::SYS_getcpu, args) } {
        Ok(_) => processor as usize,
        Err(_) => usize::MAX,
    }
}

/// Has `child`, which was just made, begin on another processor than `here`, if there is another
/// that we may use. Where it runs from then on is up to the kernel, as before.
///
/// Nothing depends on it: who cannot be moved begins later.
pub(crate) fn begin(child: Pid, here: usize) {
    move_away(Some(child), here);
}

/// The same, said by the child itself if it is on the processor `from` of its parent: one that gets its
/// turn there before the parent has moved it would keep the parent from going on, for as long as
/// it stays in the kernel.
pub(crate) fn step_aside(from: usize) {
    if here() == from {
        move_away(None, from);
    }
}

/// `None` is whoever says this.
fn move_away(who: Option<Pid>, from: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let Some(others) = without(&all, from) else { return };
    // Moved by the first call, and let free by the second.
    if sched_setaffinity(who, &others).is_ok() {
        sched_setaffinity(who, &all).unwrap_or_default();
    }
}

/// Keeps this thread, and those that it makes, on the processor that it is on, until each is let free.
///
/// For whoever sleeps until its child has become a program: it leaves its turn to the child. On another
/// processor the child, being new, would wait there for whoever runs to use up a whole turn.
#[derive(Debug)]
pub(crate) struct Here {
    all: CpuSet,
}

impl Here {
    /// `None` where there is only one, or nobody may choose.
    pub(crate) fn stay() -> Option<Self> {
        let all = sched_getaffinity(None).ok().filter(|it| 1 < it.count())?;
        let (mut only, here) = (CpuSet::new(), here());
        only.set(Some(here).filter(|it| *it < CpuSet::MAX_CPU)?);
        sched_setaffinity(None, &only).ok()?;
        Some(Self { all })
    }

    /// Lets whoever says this go where the kernel likes, as before.
    pub(crate) fn free(&self) {
        sched_setaffinity(None, &self.all).unwrap_or_default();
    }
}

/// All processors of a set but one, if that leaves any.
fn without(all: &CpuSet, one: usize) -> Option<CpuSet> {
    let mut others = *all;
    if one < CpuSet::MAX_CPU {
        others.unset(one);
    }
    (0 < others.count()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(processors: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        for it in processors {
            set.set(*it);
        }
        set
    }

    #[test]
    fn others_are_all_but_ours() {
        assert_eq!(without(&set(&[0, 3, 5]), 3), Some(set(&[0, 5])));
        assert_eq!(without(&set(&[0, 3]), 7), Some(set(&[0, 3])));
        assert_eq!(without(&set(&[2]), 2), None);
        assert_eq!(without(&set(&[2]), usize::MAX), Some(set(&[2])));
    }
}
