//! Beginning together: who is ready waits for those who are not.
//!
//! Both are ends of one pipe. The kernel lets go of them for whoever ends, so nobody waits for the dead.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

use rustix::pipe::{PipeFlags, pipe_with};

/// Held by whoever is not ready yet. Each copy of a process has its own to let go of.
#[derive(Debug)]
pub struct Unready {
    _writing: OwnedFd,
}

/// When everybody is ready: nobody holds an [`Unready`] any more.
#[derive(Debug)]
pub struct AllReady(OwnedFd);

impl AllReady {
    /// In this process and its copies; readable then.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// For this process and those that it will copy itself into.
pub fn together() -> io::Result<(Unready, AllReady)> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((Unready { _writing: writing }, AllReady(reading)))
}
