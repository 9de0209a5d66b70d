//! What happened.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the record of what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// In the order in which they happened.
    pub events: Vec<EventView>,
    /// Where the next page begins.
    pub next_cursor: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Where it is in the record.
    pub cursor: String,
    /// When, in microseconds since 1970.
    pub time: u64,
    /// To which sandbox; empty for none.
    pub sandbox: String,
    /// What.
    #[serde(flatten)]
    pub what: BTreeMap<String, serde_json::Value>,
}
