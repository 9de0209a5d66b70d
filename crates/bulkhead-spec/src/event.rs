//! What the ledger can say.

use serde::Serialize;

use crate::{Digest, EgressEvent, Ending, Guarantees, Usage};

/// One thing that happened, in the order of a sandbox's life.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Somebody wants a program run.
    Asked {
        /// The program and its arguments, escaped.
        argv: Vec<String>,
        /// From where, on the host.
        workspace: Option<String>,
    },
    /// The policy said no, or no backend could keep what it requires.
    Denied {
        /// Why, in a sentence.
        reason: String,
    },
    /// It was decided what the sandbox gets.
    Planned {
        /// What the backend must uphold.
        require: Guarantees,
    },
    /// A backend was chosen.
    Placed {
        /// Its name.
        backend: &'static str,
        /// Promises of the defaults that it cannot keep here.
        missing: Guarantees,
    },
    /// The image that is the sandbox's root is here.
    Furnished {
        /// The name that it was asked for by.
        image: String,
        /// Which one it is.
        digest: Digest,
    },
    /// The sandbox exists.
    Created,
    /// A room that was made ahead was given to somebody.
    HandedOut {
        /// The name that it has since.
        name: String,
    },
    /// A room that lives was changed.
    Changed {
        /// What is different, each in a few words; no value of a variable.
        what: Vec<String>,
    },
    /// The program runs.
    Started,
    /// Something happened on the way out.
    Egress(EgressEvent),
    /// A limit ended the program.
    LimitReached {
        /// How.
        ending: Ending,
    },
    /// The program has ended.
    Ended {
        /// How.
        ending: Ending,
        /// What it used.
        usage: Usage,
    },
    /// The sandbox is gone.
    Destroyed,
    /// What a killed Bulkhead had left was removed.
    Swept {
        /// What it was.
        what: String,
    },
}
