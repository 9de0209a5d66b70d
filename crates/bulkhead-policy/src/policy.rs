//! The rules, as written by whoever owns the machine.

use std::collections::BTreeSet;

use bulkhead_spec::{Guarantees, HostPath, Limits, Network};
use serde::{Deserialize, Serialize};

use crate::images::{self, ImageRule};

use crate::EgressCeiling;

/// The most that a sandbox may ask for.
///
/// Layers only narrow: [`Policy::narrowed_by`] can lower a ceiling or add a guarantee, never
/// the reverse, so reading any one layer tells you the most that a sandbox can get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Ceilings; whoever set one insists that it is held.
    pub ceiling: Limits,
    /// What a sandbox gets where nobody said; held where the host can.
    pub defaults: Limits,
    /// The widest network.
    pub network: Network,
    /// The most that can be reached by way of the gateway.
    pub egress: EgressCeiling,
    /// Host directories under which mounts are allowed; `None` for all that are not dangerous.
    pub mountable: Option<BTreeSet<HostPath>>,
    /// Images that may be a root; `None` for all.
    pub images: Option<BTreeSet<ImageRule>>,
    /// Promises that every sandbox must keep.
    pub require: Guarantees,
}

impl Default for Policy {
    /// No ceilings, no defaults: what a machine allows whose owner has said nothing.
    fn default() -> Self {
        Self {
            ceiling: Limits::default(),
            defaults: Limits::default(),
            network: Network::Open,
            egress: EgressCeiling::default(),
            mountable: None,
            images: None,
            require: Guarantees::default(),
        }
    }
}

impl Policy {
    /// The policy that allows only what both `self` and `other` allow.
    #[must_use]
    pub fn narrowed_by(self, other: Self) -> Self {
        Self {
            ceiling: self.ceiling.lowest(other.ceiling),
            defaults: self.defaults.lowest(other.defaults),
            network: self.network.min(other.network),
            egress: self.egress.narrowed_by(other.egress),
            mountable: narrower(self.mountable, other.mountable),
            images: images::narrower(self.images, other.images),
            require: self.require | other.require,
        }
    }

    pub(crate) fn may_mount(&self, from: &HostPath) -> bool {
        self.mountable.as_ref().is_none_or(|roots| roots.iter().any(|root| root.holds(from)))
    }
}

/// The directories below a root of either set, as far as the other set allows them.
fn narrower(
    one: Option<BTreeSet<HostPath>>,
    other: Option<BTreeSet<HostPath>>,
) -> Option<BTreeSet<HostPath>> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (roots, None) | (None, roots) => return roots,
    };
    let held =
        |roots: &BTreeSet<HostPath>, dir: &HostPath| roots.iter().any(|root| root.holds(dir));
    let in_both = |dir: &&HostPath| held(&one, dir) && held(&other, dir);
    Some(one.union(&other).filter(in_both).cloned().collect())
}
