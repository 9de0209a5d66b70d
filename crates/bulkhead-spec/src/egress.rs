//! What may leave a sandbox, in the words of whoever asks for it.
//!
//! One grammar of hosts serves rules that allow, rules that deny, and every name that a program
//! inside asks for; a name that it does not accept goes nowhere.

mod binding;
mod budget;
mod event;
mod groups;
mod host;
mod label;
mod limits;
mod path;
mod pattern;
mod rule;

use serde::{Deserialize, Serialize};

pub use binding::{InvalidBinding, SecretBinding, SecretSource, SetHeader};
pub use budget::{Budget, InvalidBudget, Money, Spent};
pub use event::{Caught, DeniedHost, EgressEvent, EgressUsage, HostUsage, NeighbourUsage};
pub use groups::{GROUPS, Group, Preset, UnknownPreset, allowing, denying, group};
pub use host::{Host, HostName, InvalidHost};
pub use label::{InvalidLabel, Label};
pub use limits::EgressLimits;
pub use path::{AmbiguousPath, InvalidPathPattern, PathPattern, RequestPath};
pub use pattern::HostPattern;
pub use rule::{InvalidRule, Ports, Rule, Target, Wire};

/// What a caller wants of the way out. The default wants nothing, and gets nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// What may be reached.
    pub allow: Vec<Sourced>,
    /// What may not, whatever else allows it.
    pub deny: Vec<Sourced>,
    /// Values that programs may use without seeing them.
    pub secrets: Vec<SecretBinding>,
    /// How much may be spent, and where.
    pub budgets: Vec<Budget>,
    /// Ceilings on the whole.
    pub limits: EgressLimits,
    /// The private network to join: the sandboxes in it reach each other by name.
    pub network: Option<Label>,
    /// What the others there call it; if not said, its name on this host.
    pub alias: Option<String>,
}

/// A rule, and who said it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced {
    /// What it says.
    pub rule: Rule,
    /// Where it was said: a flag, or a file and its line; of a group, which one.
    pub origin: String,
}
