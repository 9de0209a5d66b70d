//! Copies of this process.

use std::io;

/// Who one is after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The one who was there before.
    Parent,
    /// The copy.
    Child,
}

/// A process that can be copied, because it has one thread only: of others, a copy would have the
/// locks that they held and nobody to open them.
#[derive(Debug)]
pub struct Single(());

impl Single {
    /// Looks whether this process is one. Nobody starts a thread from here on.
    pub fn now() -> io::Result<Self> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("a process with several threads cannot be copied"));
        }
        Ok(Self(()))
    }

    /// Makes a copy.
    pub fn fork(&self) -> io::Result<Forked> {
        // SAFETY: there is no other thread, so the copy is as whole as the original.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(Forked::Child),
            _ => Ok(Forked::Parent),
        }
    }
}
