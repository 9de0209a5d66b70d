//! The words between host and guest.
//!
//! One stream carries all of it: messages, and the bytes of *channels*. A channel is a stream of
//! bytes in both directions inside that stream. Whoever makes one chooses its number, the host
//! below [`FIRST_OF_GUEST`], the guest from there on, each one higher than the last and never
//! again. In each direction it starts with credit for [`WINDOW_TO_HOST`] or [`WINDOW_TO_GUEST`]
//! bytes; whoever has taken bytes out of it grants [`Flow::Credit`] for as many more. So both sides
//! know how much memory it can cost, and a reader who is slow holds up nothing but its own channel.
//! A direction ends with [`Flow::Finish`], and the channel with its second direction.
//!
//! The host trusts nothing that the guest says: frames are bounded, and every number is checked
//! where it is used.

pub mod files;

use std::net::SocketAddr;

use bulkhead_linux::{launch::Stage, walls::Walls};
use serde::{Deserialize, Serialize};

use self::files::{FileOrder, Filed};

/// The longest frame from the host: arguments and variables of one program, and some.
pub const MOST_TO_GUEST: usize = 2 << 20;
/// The longest frame from the guest.
pub const MOST_TO_HOST: usize = 64 << 10;
/// The lowest number of a channel that the guest makes.
pub const FIRST_OF_GUEST: u32 = 1 << 31;
/// Bytes of a channel that the guest may send before the host has taken any.
pub const WINDOW_TO_HOST: usize = 512 << 10;
/// Bytes of a channel that the host may send before the guest has taken any.
pub const WINDOW_TO_GUEST: usize = 256 << 10;
/// The most bytes of a channel in one frame.
pub const MOST_DATA: usize = 32 << 10;
/// The most bytes of a datagram that is passed on; the largest that names are asked with.
pub const MOST_DATAGRAM: usize = 4096;

/// What the host says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// Find the sandbox furnished so. Said before the walls are raised, if at all.
    Furnish(Furnish),
    /// Put the walls up. Said once, before any program.
    Raise(Walls),
    /// Start a program.
    Start(Start),
    /// Send a signal to a program and its process group.
    Signal {
        /// Which program.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Tell a carried terminal its size.
    Resize {
        /// Which program's.
        id: u32,
        /// Its lines and columns.
        size: (u16, u16),
    },
    /// Connect to something inside.
    Connect {
        /// The channel that becomes the connection.
        channel: u32,
        /// To what.
        to: To,
    },
    /// Listen inside, and pass on who comes. May be said before the walls stand.
    Listen(Listen),
    /// Listen there no more: who comes is refused.
    Leave {
        /// How both sides call it.
        id: u32,
    },
    /// Send a datagram to somebody inside.
    Datagram(Datagram),
    /// Do something with files. Said after the walls are raised.
    File(FileOrder),
    /// What was written so far is all of it, and counts.
    Commit {
        /// The order that it was written for.
        id: u32,
    },
    /// Something about a channel.
    Flow(Flow),
}

/// What the private directories of a sandbox are, where they are not one filesystem that the host
/// has filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Furnish {
    /// Where everything that is written outside the workspace goes, a filesystem each.
    pub scratch: Vec<Vec<u8>>,
    /// Small files to be made, by their paths.
    pub files: Vec<(Vec<u8>, Vec<u8>)>,
    /// What must be found where: whoever mounted it was told a path, and paths change.
    pub expected: Vec<Expected>,
}

/// One thing that the host has looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Where it is inside.
    pub at: Vec<u8>,
    /// The filesystem that it is on.
    pub device: (u32, u32),
    /// Its number there.
    pub number: u64,
}

/// What either side says about a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    /// The other side may send that many bytes more.
    Credit {
        /// In which.
        channel: u32,
        /// How many.
        bytes: u32,
    },
    /// No more bytes will be sent.
    Finish {
        /// In which.
        channel: u32,
    },
    /// No more bytes are wanted: those that still come are thrown away, and the other side should
    /// finish.
    Refuse {
        /// In which.
        channel: u32,
    },
}

/// To what inside the host wants to be connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum To {
    /// A TCP port of the loopback interface, by either version of the protocol.
    Port(u16),
    /// Whatever is at this address and port, as seen from inside.
    Address(SocketAddr),
    /// A socket with a name.
    Path(Vec<u8>),
}

/// Where the guest listens for the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// How both sides call it.
    pub id: u32,
    /// Where connections are taken.
    pub tcp: Vec<SocketAddr>,
    /// Where datagrams are taken.
    pub udp: Vec<SocketAddr>,
    /// The most connections at once; more wait.
    pub most: u32,
}

/// A datagram on its way between somebody inside and the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagram {
    /// Where the guest listens for it.
    pub listener: u32,
    /// To what address it was sent, or is to be sent from.
    pub local: SocketAddr,
    /// Who sent it, or is to get it.
    pub peer: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
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
    /// What it reads and writes.
    pub stdio: Stdio,
    /// What the guest does when it has ended.
    pub after: After,
}

/// What a program reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdio {
    /// Three descriptors, which come with the message.
    Descriptors,
    /// A terminal of that many lines and columns, which comes with [`ToHost::Started`].
    Terminal((u16, u16)),
    /// Pipes, which the guest carries.
    Carried {
        /// The channel that it reads from; without one there is nothing to read.
        stdin: Option<u32>,
        /// The channel that it writes to.
        stdout: u32,
        /// The channel that it complains to.
        stderr: u32,
    },
    /// A terminal, which the guest carries.
    CarriedTerminal {
        /// The channel that is its other end.
        channel: u32,
        /// Its lines and columns.
        size: (u16, u16),
    },
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
        /// Its process, as the sandbox counts.
        pid: u32,
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
    /// A program has ended. What it wrote to channels was sent before this.
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
    /// A connection that the host asked for stands.
    Connected {
        /// The channel that it is.
        channel: u32,
    },
    /// A connection that the host asked for cannot be had; there is no such channel.
    NotConnected {
        /// The channel that it was to be.
        channel: u32,
        /// What the kernel said.
        errno: i32,
    },
    /// The guest listens.
    Listening {
        /// As the host called it.
        id: u32,
    },
    /// The guest cannot listen.
    NotListening {
        /// As the host called it.
        id: u32,
        /// What the kernel said.
        errno: i32,
    },
    /// Somebody inside has connected to where the guest listens.
    Accepted(Accepted),
    /// Somebody inside has sent a datagram to where the guest listens.
    Datagram(Datagram),
    /// What became of an order about files.
    Filed {
        /// Which.
        id: u32,
        /// What became of it.
        filed: Filed,
    },
    /// Something about a channel.
    Flow(Flow),
}

/// A connection from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The channel that it is, one of the guest's.
    pub channel: u32,
    /// Where the guest listens for it.
    pub listener: u32,
    /// The address that was wanted.
    pub local: SocketAddr,
    /// Who wanted it.
    pub peer: SocketAddr,
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
