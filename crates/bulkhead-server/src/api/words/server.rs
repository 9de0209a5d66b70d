//! The server itself: what it upholds, that it lives, and what went wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What each backend upholds on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// The version of the server.
    pub version: String,
    /// The backend that sandboxes are built by; `auto` for the first that can.
    pub default_backend: String,
    /// All that this host has.
    pub backends: Vec<BackendReport>,
}

/// What one backend upholds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// Whether an ordinary sandbox can be built by it.
    pub usable: bool,
    /// Why it cannot be asked, if it cannot.
    pub unavailable: Option<String>,
    /// Each guarantee.
    pub guarantees: Vec<GuaranteeReport>,
}

/// Whether a guarantee is upheld.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuaranteeReport {
    /// Its name.
    pub name: String,
    /// Whether it is.
    pub upheld: bool,
    /// By what, or why not.
    pub because: String,
    /// What would help.
    pub hint: Option<String>,
}

/// That the server lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or what is wrong.
    pub status: String,
}

/// What went wrong, as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemView {
    /// Which kind of trouble: `urn:bulkhead:problem:…`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What exactly.
    pub detail: String,
    /// The number of the error, for `bulkhead explain`.
    pub code: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
