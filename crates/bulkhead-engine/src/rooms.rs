//! Rooms that outlive the command that made them.
//!
//! One small process, the *shim*, holds each room: its lock, its sandbox, the output of its
//! programs. Everybody else is a client that talks to the shim over a socket. There is no daemon:
//! the [`Journal`] is a directory, and who is alive is told by locks, never by what a file says.
//!
//! ```text
//! create ─▶ shim: Journal::begin (fsync) ─▶ Engine::open ─▶ ready ─▶ serve ─▶ end, tombstone
//! exec, ls, … ─▶ Journal::find ─▶ Client ─▶ shim
//! ```

mod admission;
mod checkpoint;
mod client;
mod ended;
mod fork;
mod frame;
#[doc(hidden)]
pub(crate) mod fuzzing;
mod journal;
mod keep;
mod launch;
mod layers;
mod line;
pub mod pool;
mod protocol;
mod restore;
mod shim;

pub use admission::{Admission, Busy, Reserve};
pub use bulkhead_backends::guest::files as tree;
pub use checkpoint::{Checkpoint, CheckpointError, Snapshot};
pub use client::{
    Attached, Client, ClientError, Dial, Download, Duplex, Ear, Hand, Links, Named, Reply,
    Unpoured, Update, Upload,
};
pub use ended::{CopyDone, CopyWanted, NotCopied, copy_ended};
pub use fork::{Alike, fork};
pub use journal::{
    Claim, End, Journal, JournalError, Keeping, Life, Lifetime, Listed, Pooled, Quota, Record,
    Then, Why, Wish,
};
pub use launch::{LaunchError, launch};
pub use protocol::{Failed, ProgramInfo, RoomInfo, Stats};
pub use restore::{RestoreError, Running};
pub use shim::{Ready, hold, hold_one_of_many};
