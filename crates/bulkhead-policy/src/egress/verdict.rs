//! What a question about the way out is answered with.

use std::{collections::BTreeSet, fmt};

use bulkhead_spec::{Ports, Rule, Sourced, Wire};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be reached.
    Allowed(Allowance),
    /// It may not.
    Denied(Refusal),
}

/// What was allowed, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The rule, and who said it.
    pub by: Sourced,
    /// What may be said there.
    pub speech: BTreeSet<Speech>,
    /// Whether each request must be judged besides.
    pub scope: Scope,
}

/// Whether a connection is judged as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Whatever is said on it.
    Connection,
    /// Each request on it again.
    Request,
}

/// A kind of talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speech {
    /// TLS for the name that was allowed.
    Tls,
    /// HTTP for the name that was allowed.
    Http,
    /// Any bytes.
    Raw,
}

impl Speech {
    /// What `rule` allows on `port`.
    pub(super) fn by(rule: &Rule, port: u16) -> Self {
        match (rule.wire, port) {
            (Wire::Tls, _) | (Wire::Usual, 443) => Self::Tls,
            (Wire::Http, _) | (Wire::Usual, 80) => Self::Http,
            (Wire::Usual | Wire::Raw, _) => Self::Raw,
        }
    }
}

/// Why not, and what would change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The rule that would allow it, if one could.
    pub allow_with: Option<String>,
}

/// Why something may not be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing allows it.
    NoRule,
    /// Something denies it.
    Rule(Sourced),
    /// What the owner of the machine allows does not include it.
    Ceiling,
    /// It is allowed, and a limit or a budget is used up.
    Spent(&'static str),
    /// No rule could allow it.
    Forbidden(&'static str),
}

impl Reason {
    /// The rule that denied it, if one did.
    pub fn rule(&self) -> Option<&Sourced> {
        match self {
            Self::Rule(sourced) => Some(sourced),
            Self::NoRule | Self::Ceiling | Self::Spent(_) | Self::Forbidden(_) => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => out.write_str("no rule"),
            Self::Rule(Sourced { rule, origin }) => {
                write!(out, "denied by `{rule}` ({origin})")
            }
            Self::Ceiling => out.write_str("not among what this machine's policy allows"),
            Self::Spent(why) | Self::Forbidden(why) => out.write_str(why),
        }
    }
}

/// Whether a rule that denies speaks of `port`; without one it speaks of all.
pub(super) fn denies_port(rule: &Rule, port: u16) -> bool {
    match rule.ports {
        Ports::Web => true,
        Ports::One(one) => one == port,
    }
}
