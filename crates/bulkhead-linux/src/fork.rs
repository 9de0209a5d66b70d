//! A copy of this process.

use std::io;

/// Who one is after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The one who was there before.
    Parent,
    /// The copy.
    Child,
}

/// Makes a copy of this process, which must have one thread only: of the others, the copy would
/// have the locks that they held and nobody to open them.
pub fn fork() -> io::Result<Forked> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads cannot be copied"));
    }
    // SAFETY: there is no other thread, so the copy is as whole as the original.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent),
    }
}
