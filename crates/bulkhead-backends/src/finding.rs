//! What a backend can promise on this host, and why not the rest.

use bulkhead_spec::Guarantee;
use serde::Serialize;

/// One promise, as this host allows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The promise.
    pub guarantee: Guarantee,
    /// Whether it can be kept.
    #[serde(flatten)]
    pub state: State,
}

/// Whether a promise can be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It is kept.
    Upheld {
        /// By what.
        by: String,
    },
    /// It cannot be kept here.
    Missing {
        /// Why not.
        why: String,
        /// What to type or change, if something would help.
        hint: Option<String>,
    },
}

impl Finding {
    /// A promise that is kept.
    pub fn upheld(guarantee: Guarantee, by: impl Into<String>) -> Self {
        Self { guarantee, state: State::Upheld { by: by.into() } }
    }

    /// A promise that cannot be kept, whatever the user does.
    pub fn never(guarantee: Guarantee, why: impl Into<String>) -> Self {
        Self { guarantee, state: State::Missing { why: why.into(), hint: None } }
    }

    /// A promise that could be kept if the user did something.
    pub fn missing(
        guarantee: Guarantee,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let state = State::Missing { why: why.into(), hint: Some(hint.into()) };
        Self { guarantee, state }
    }

    /// What bounds a disk that outlives its sandbox.
    pub(crate) fn kept() -> Self {
        Self::missing(
            Guarantee::DiskBounded,
            "a disk that is kept is a directory of the host, on which no quota is set",
            "leave --disk and --inodes out, or make the room without --persist",
        )
    }
}
