//! Ceilings on everything that leaves one sandbox.

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// How much may pass in all. `None` means that nobody said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressLimits {
    /// Connections at one time.
    pub connections: Option<u32>,
    /// Bytes from the sandbox to the world, over its life.
    pub up: Option<Bytes>,
    /// Bytes from the world to the sandbox, over its life.
    pub down: Option<Bytes>,
    /// Connections and requests, over its life.
    pub requests: Option<u64>,
}

impl EgressLimits {
    /// The lower of each.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (it, None) | (None, it) => it,
            }
        }
        Self {
            connections: lower(self.connections, other.connections),
            up: lower(self.up, other.up),
            down: lower(self.down, other.down),
            requests: lower(self.requests, other.requests),
        }
    }
}
