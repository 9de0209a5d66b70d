//! What a client and a shim say to each other, in JSON, so that either may be newer.

use std::collections::BTreeMap;

use bulkhead_backends::{
    Extent,
    guest::files::{Depth, Facts, Notes, Onto, Put},
};
use bulkhead_spec::{Change, Ending, Exec, Guarantees, Terminal, Usage, Word};
use serde::{Deserialize, Serialize};

use super::{
    journal::{Lifetime, Pooled},
    pool::HandOut,
};

/// The words that this program knows. A shim that knows others says so at once.
pub(super) const VERSION: u32 = 1;

/// The first thing that a client says on a connection; a connection serves one request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) version: u32,
    pub(super) request: Request,
}

/// What every opening has, whatever its version.
#[derive(Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u32,
}

/// What a client wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request {
    /// Start a program.
    Exec {
        /// What.
        exec: Exec,
        /// How its caller calls it.
        tag: Option<String>,
        /// Whether the caller stays on this connection.
        stay: bool,
    },
    /// Read what a program says, and write to it.
    Attach {
        program: u32,
        /// From the oldest that is there, or from now on.
        from_start: bool,
        /// Until the end, or only what is there.
        follow: bool,
        /// Whether the program goes on though nobody keeps up with it.
        #[serde(default)]
        look: bool,
    },
    /// Which programs there are.
    Programs,
    /// Send a signal to one.
    Signal { program: u32, signal: i32 },
    /// What follows on this connection is what it reads.
    Input { program: u32 },
    /// It gets no more to read.
    CloseInput { program: u32 },
    /// Its terminal has another size.
    Resize { program: u32, terminal: Terminal },
    /// Do something with files.
    File(FileRequest),
    /// Join this connection to a TCP port inside.
    Forward { port: u16 },
    /// What the room has used.
    Stats,
    /// What the room is.
    Inspect,
    /// Freeze every program.
    Pause,
    /// Let them go on.
    Resume,
    /// Copy the private disk into an empty directory of the host, while every program stands
    /// still.
    Copy { layer: Word },
    /// The room lives so long from now on.
    Lifetime(Lifetime),
    /// Something about it is different from now on.
    Update {
        change: Box<Change>,
        #[serde(default)]
        lifetime: Option<Lifetime>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
    },
    /// A room that was made ahead is somebody's from now on.
    HandOut(Box<HandOut>),
    /// End the room if it is still parked.
    Retire,
    /// End the room: programs are asked to stop and have so many milliseconds for it.
    End { grace_ms: u64 },
}

/// What a client wants with files. Paths are as the room sees them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "file", rename_all = "snake_case")]
pub(super) enum FileRequest {
    Stat {
        path: Word,
        follow: bool,
    },
    List {
        path: Word,
        depth: u32,
        most: usize,
    },
    /// The bytes follow the answer.
    Read {
        path: Word,
        offset: u64,
        length: Option<u64>,
    },
    /// The client sends the bytes, and an empty frame at their end.
    Write {
        path: Word,
        put: Put,
        mode: Option<u32>,
        #[serde(default)]
        notes: Option<Notes>,
    },
    MakeDirs {
        path: Word,
        mode: u32,
    },
    Move {
        from: Word,
        to: Word,
        onto: Onto,
    },
    Remove {
        path: Word,
        depth: Depth,
    },
    Set {
        path: Word,
        mode: Option<u32>,
        modified: Option<(i64, u32)>,
    },
    /// A tree as records follows the answer.
    Pack {
        path: Word,
    },
    /// The client sends a tree as records, and an empty frame at its end.
    Unpack {
        path: Word,
    },
    /// Changes as records follow the answer, for as long as the client stays.
    Watch {
        path: Word,
        depth: Depth,
    },
}

/// What a shim answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// A program runs; what it says follows.
    Started {
        program: u32,
        /// Its process, as the room counts.
        #[serde(default)]
        pid: u32,
    },
    /// So much of what it said is no longer there.
    Lost {
        bytes: u64,
    },
    /// It has ended.
    Ended {
        ending: Option<Ending>,
        trouble: Option<String>,
        wall_seconds: f64,
    },
    /// What is there.
    File {
        facts: Facts,
    },
    /// What is in a directory.
    Listing {
        entries: Vec<(Vec<u8>, Facts)>,
        truncated: bool,
    },
    Programs {
        programs: Vec<ProgramInfo>,
    },
    Stats {
        stats: Box<Stats>,
    },
    Room {
        room: Box<RoomInfo>,
    },
    /// The disk was copied.
    Copied {
        bytes: u64,
        files: u64,
        /// Shims that do not say it copy changes.
        #[serde(default)]
        extent: Extent,
    },
    /// It could not be done.
    Failed(Failed),
}

/// Why a shim could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// Whose turn it is, as a word.
    pub kind: String,
    /// What could not be done.
    pub message: String,
    /// Why, the nearest cause first.
    pub causes: Vec<String>,
    /// What would help.
    pub hint: Option<String>,
    /// The exit code by which a shell knows it.
    pub exit: u8,
}

/// A program of a room, from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramInfo {
    /// How the room calls it.
    pub id: u32,
    /// Its process as the room counts, for those inside. On the host it means nothing.
    #[serde(default)]
    pub pid: u32,
    /// How its caller calls it.
    pub tag: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<Word>,
    /// Where it started.
    pub dir: String,
    /// Whether it runs on a terminal.
    pub terminal: bool,
    /// Seconds since 1970.
    pub started: u64,
    /// How it ended, if it has.
    pub ending: Option<Ending>,
    /// Whether it still runs.
    pub running: bool,
    /// How much it has said.
    pub said: u64,
}

/// What a room has used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Seconds since the room was made.
    pub wall_seconds: f64,
    /// Processor time of all programs, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory in use now, in bytes.
    pub memory: Option<u64>,
    /// The most memory at one time, in bytes.
    pub memory_peak: Option<u64>,
    /// Its limit.
    pub memory_limit: Option<u64>,
    /// Processes and threads at once, at most.
    pub processes_peak: Option<u64>,
    /// How many programs run.
    pub programs: u32,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
}

/// What a room is, as its shim knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoomInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What its user says about it.
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub made: u64,
    /// What built it.
    pub backend: String,
    /// Whether it is frozen.
    pub paused: bool,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Seconds until its time is over.
    pub left_seconds: Option<f64>,
    /// The promises that hold.
    pub upheld: Guarantees,
    /// Promises of the defaults that do not.
    pub missing: Guarantees,
    /// What was decided about it.
    pub plan: serde_json::Value,
    /// Where its programs start if nobody says, as the room sees it.
    #[serde(default)]
    pub dir: Option<Word>,
    /// Whether it was made ahead.
    #[serde(default)]
    pub pool: Pooled,
    /// The shim's process.
    pub shim: u32,
}

impl Stats {
    pub(super) fn of(usage: &Usage, limit: Option<u64>, programs: u32) -> Self {
        Self {
            wall_seconds: usage.wall.as_secs_f64(),
            cpu_seconds: usage.cpu.map(|it| it.as_secs_f64()),
            memory: usage.memory.map(|it| it.0),
            memory_peak: usage.memory_peak.map(|it| it.0),
            memory_limit: limit,
            processes_peak: usage.processes_peak,
            programs,
            oom_kills: usage.oom_kills,
        }
    }
}
