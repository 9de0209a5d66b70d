//! The words of the API: what is asked, and what is answered.
//!
//! The document at `/openapi.json` is made from these types, so what it says is what is read and
//! written. Unknown fields are refused: a limit that is misspelt must not be ignored.

mod checkpoint;
mod event;
mod file;
mod program;
mod sandbox;
mod server;

pub use checkpoint::{
    CheckpointInfo, CheckpointPage, ForkAsked, Forked, NewCheckpoint, RestoreAsked,
};
pub use event::{EventPage, EventView};
pub use file::{FileKind, FileView, Listing, MoveAsked, NewDirectory};
pub use program::{
    Encoding, EndingKind, EndingView, ExecAsked, ExecOutcome, LogEntry, Logs, NewProgram,
    ProgramList, ProgramView, SignalAsked, TerminalSize,
};
pub use sandbox::{
    Ended, LifetimeAsked, LimitsAsked, NetworkAsked, NetworkMode, NewSandbox, OnTimeout, Ports,
    SandboxInfo, SandboxPage, SandboxState, SandboxStats,
};
pub use server::{BackendReport, Capabilities, GuaranteeReport, Health, ProblemView};
