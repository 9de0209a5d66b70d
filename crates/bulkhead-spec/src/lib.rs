//! The words Bulkhead thinks in.
//!
//! A caller *asks* with a [`Spec`] (the room) and an [`Exec`] (what happens in it). Everything
//! after that is somebody else's crate: `bulkhead-policy` decides, `bulkhead-backends` builds,
//! `bulkhead-engine` runs and answers with an [`Outcome`].
//!
//! | word | meaning |
//! |---|---|
//! | [`Spec`] | a room as somebody asked for it; every omission means "the least" |
//! | [`Exec`] | one program to run in it: argv, never a shell line |
//! | [`Guarantee`] | one promise that a sandbox keeps towards its host |
//! | [`Outcome`] | how a program ended, said by the thing that ended it |
//! | [`Event`] | one line of what the ledger can say |
//! | [`Rule`] | which hosts may, or may not, be reached from inside |
//! | [`Egress`] | what a caller wants of the way out: rules, secrets, budgets |
//! | [`Change`] | what is to be different about a room that lives |
//!
//! Invariant: this crate is data. It opens no file, reads no clock and spawns nothing.

mod bytes;
mod change;
mod cpus;
mod duration;
mod egress;
mod escape;
mod event;
mod exec;
#[doc(hidden)]
pub mod fuzzing;
mod guarantee;
mod image;
mod limits;
mod outcome;
mod paths;
mod secret;
mod spec;
mod words;

pub use bytes::{Bytes, InvalidBytes};
pub use change::Change;
pub use cpus::{Cpus, InvalidCpus};
pub use duration::{InvalidDuration, Span};
pub use egress::{
    AmbiguousPath, Budget, Caught, DeniedHost, Egress, EgressEvent, EgressLimits, EgressUsage,
    GROUPS, Group, Host, HostName, HostPattern, HostUsage, InvalidBinding, InvalidBudget,
    InvalidHost, InvalidLabel, InvalidPathPattern, InvalidRule, Label, Money, NeighbourUsage,
    PathPattern, Ports, Preset, RequestPath, Rule, SecretBinding, SecretSource, SetHeader,
    Sourced, Spent, Target, UnknownPreset, Wire, allowing, denying, group,
};
pub use escape::{escape, escape_bytes};
pub use event::Event;
pub use exec::{Entry, Exec, Stdin, Terminal};
pub use guarantee::{Guarantee, Guarantees, UnknownGuarantee};
pub use image::{
    Digest, ImageFacts, ImageRef, ImageSource, InvalidDigest, InvalidReference, Pull, Reference,
};
pub use limits::Limits;
pub use outcome::{Ending, Outcome, Stream, Usage};
pub use paths::{GuestPath, HostPath, InvalidPath};
pub use secret::Secret;
pub use spec::{Access, EnvFiles, Mount, Network, Root, Spec, Syscalls, Walls, Workspace};
pub use words::Word;
