//! Why the journal cannot be used so.

use std::{io, path::PathBuf};

use bulkhead_spec::escape;

use crate::rooms::admission::Busy;

/// The journal cannot be used as it is, or does not know the room.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No room has this name.
    #[error("there is no room `{}`", escape(.0))]
    Unknown(String),
    /// Several rooms could be meant.
    #[error("`{}` could be {}", escape(.text), some(.candidates))]
    Ambiguous {
        /// What was said.
        text: String,
        /// The names of all that match.
        candidates: Vec<String>,
    },
    /// A living room has this name already.
    #[error("a room called `{}` exists already", escape(.0))]
    Taken(String),
    /// There are as many rooms as there may be.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A name that rooms cannot have.
    #[error(
        "`{}` cannot be the name of a room: letters, digits, `-`, `_` and `.`, at most 64",
        escape(.0)
    )]
    Name(String),
    /// What the room's disk is to begin with was removed.
    #[error("a layer that the room begins with is not there any more")]
    NoLayer,
    /// A record that this program cannot read. It was moved aside, and nothing was deleted.
    #[error("the record of a room could not be read and was moved to `{}`: {why}", .moved.display())]
    Unreadable {
        /// Where it is now.
        moved: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused something.
    #[error("could not {action} in the journal of rooms")]
    System {
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The first of many names.
fn some(names: &[String]) -> String {
    const TOLD: usize = 5;
    let told = names.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(TOLD) {
        Some(more @ 1..) => format!("{told} or {more} more"),
        Some(0) | None => told,
    }
}
