//! Programs that have ended and whose last words are still on the way.
//!
//! The host may end the sandbox as soon as it knows of a program's end. So it is told only when
//! everything that the program itself had written has been sent; what others write into the same
//! pipe after that has no part in it.

use std::{collections::BTreeMap, io};

use bulkhead_linux::reap::children_used;
use rustix::process::WaitStatus;

use crate::{
    control::Control,
    protocol::{After, Counted, Disk, Status, ToHost},
};

/// All of them, the first to end first.
#[derive(Default)]
pub(super) struct Leavings(Vec<Leaving>);

/// A program that has ended.
pub(super) struct Leaving {
    message: ToHost,
    after: After,
    /// What is still to be sent, by channel.
    owed: BTreeMap<u32, u64>,
}

impl Leaving {
    pub(super) fn new(message: ToHost, after: After, owed: BTreeMap<u32, u64>) -> Self {
        Self { message, after, owed }
    }
}

/// What the host is told of a program that ended.
pub(super) fn message(id: u32, status: WaitStatus, disk: Disk) -> ToHost {
    let status = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, signal) => Status::Signaled(signal.unwrap_or_default()),
    };
    let (cpu_micros, largest_kib) = children_used();
    let counted = Counted { cpu_micros, largest_kib };
    ToHost::Ended { id, status, disk, counted }
}

impl Leavings {
    pub(super) fn push(&mut self, leaving: Leaving) {
        self.0.push(leaving);
    }

    /// Notes that `count` bytes of `channel` were sent, and whether its source lasts; says whether
    /// somebody waited for it.
    pub(super) fn paid(&mut self, channel: u32, count: usize, source: Source) -> bool {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let mut waited = false;
        for leaving in &mut self.0 {
            let Some(owed) = leaving.owed.get_mut(&channel) else { continue };
            waited = true;
            *owed = owed.saturating_sub(count);
            if *owed == 0 || source == Source::Ended {
                leaving.owed.remove(&channel);
            }
        }
        waited
    }

    /// Tells the host of those that have left for good, and whether one of them was the last.
    pub(super) fn tell(&mut self, control: &Control) -> io::Result<After> {
        let mut after = After::Stay;
        for gone in self.0.extract_if(.., |it| it.owed.is_empty()) {
            control.say(&gone.message)?;
            if gone.after == After::End {
                after = After::End;
            }
        }
        Ok(after)
    }
}

/// Whether more comes out of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Lasts,
    Ended,
}
