//! One program to run.

use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{GuestPath, Span};

/// A program to run in a sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The program and its arguments: never a shell line.
    #[serde(with = "crate::words::list")]
    pub argv: Vec<OsString>,
    /// Whether an image has a say in what that is.
    pub entry: Entry,
    /// Where it starts; the workspace, else the home directory, if not said.
    pub dir: Option<GuestPath>,
    /// Variables on top of the sandbox's.
    #[serde(with = "crate::words::pairs")]
    pub env: BTreeMap<OsString, OsString>,
    /// How long it may run; what the room allows if not said.
    pub timeout: Option<Span>,
    /// How long it may tidy up after it was asked to stop, before it is killed.
    pub grace: Duration,
    /// What it reads.
    pub stdin: Stdin,
    /// The terminal that it runs on, if it is to have one.
    pub terminal: Option<Terminal>,
}

/// Whether the root's image has a say in which program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// The program is the one that was named.
    #[default]
    Exact,
    /// The image's entrypoint runs, with the words that were named as its arguments; where none
    /// were, with the image's own. As with `docker run`.
    Image,
}

/// What a program reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// Nothing: the end of file at once.
    #[default]
    Empty,
    /// What the caller writes to it.
    Piped,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}
