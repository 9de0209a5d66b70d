//! What is to be different about a room that lives.

use std::{collections::BTreeMap, ffi::OsString};

use serde::{Deserialize, Serialize};

use crate::{Limits, Sourced, Spec};

/// A change that somebody wants. Whatever is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Variables for programs that start from now on.
    #[serde(with = "crate::words::pairs")]
    pub env: BTreeMap<OsString, OsString>,
    /// Variables that those programs no longer get.
    #[serde(with = "crate::words::list")]
    pub without: Vec<OsString>,
    /// Ceilings, of the whole room.
    pub limits: Limits,
    /// Rules that allow more.
    pub allow: Vec<Sourced>,
    /// Rules that deny more.
    pub deny: Vec<Sourced>,
}

impl Spec {
    /// The room as if it had been asked for with `change`.
    #[must_use]
    pub fn changed(mut self, change: &Change) -> Self {
        for name in &change.without {
            self.env.remove(name);
            self.fallback_env.remove(name);
        }
        self.env.extend(change.env.clone());
        self.limits = change.limits.or(self.limits);
        self.egress.allow.extend(change.allow.iter().cloned());
        self.egress.deny.extend(change.deny.iter().cloned());
        self
    }
}
