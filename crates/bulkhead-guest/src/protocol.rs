//! The words between host and guest.
//!
//! The host trusts nothing that the guest says: frames are bounded, and every number is checked
//! where it is used.

use bulkhead_linux::{launch::Stage, walls::Walls};
use serde::{Deserialize, Serialize};

/// The longest frame from the host: arguments and variables of one program, and some.
pub const MOST_TO_GUEST: usize = 2 << 20;
/// The longest frame from the guest.
pub const MOST_TO_HOST: usize = 64 << 10;

/// What the host says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// Put the walls up. Said once, before anything else.
    Raise(Walls),
    /// Start a program. Comes with its three streams unless it gets a terminal.
    Start(Start),
    /// Send a signal to a program and its process group.
    Signal {
        /// Which program.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
}

/// A program to start.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// How both sides call it.
    pub id: u32,
    /// The program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Its variables, each `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Where it starts.
    pub dir: Vec<u8>,
    /// Lines and columns of its terminal, if it gets one.
    pub terminal: Option<(u16, u16)>,
    /// What the guest does when it has ended.
    pub after: After,
}

/// What the guest does when a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum After {
    /// It waits for more.
    Stay,
    /// It ends, and the sandbox with it.
    End,
}

/// What the guest says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    /// The walls stand.
    Ready,
    /// A wall could not be put up; the guest ends.
    Failed {
        /// What was to be done, as a verb.
        action: String,
        /// What the kernel said.
        errno: i32,
    },
    /// A program runs. Comes with its terminal if it has one.
    Started {
        /// Which.
        id: u32,
    },
    /// A program could not be started.
    NotStarted {
        /// Which.
        id: u32,
        /// How far it came.
        stage: Stage,
        /// What the kernel said.
        errno: i32,
    },
    /// A program has ended.
    Ended {
        /// Which.
        id: u32,
        /// As `wait` says it.
        status: Status,
        /// Whether the private disk had room left when it ended.
        disk: Disk,
        /// What it used, it and all that it waited for.
        counted: Counted,
    },
}

impl ToHost {
    /// Which program it is about.
    pub fn program(&self) -> Option<u32> {
        match *self {
            Self::Ready | Self::Failed { .. } => None,
            Self::Started { id } | Self::NotStarted { id, .. } | Self::Ended { id, .. } => {
                Some(id)
            }
        }
    }
}

/// What programs used, as far as whoever waited for them knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Processor time in microseconds.
    pub cpu_micros: u64,
    /// The most memory of the largest of them.
    pub largest_kib: u64,
}

/// Whether the private disk has room left, for bytes and for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disk {
    /// It has.
    Room,
    /// It has not.
    Full,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}
