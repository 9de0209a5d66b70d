//! What must be known of a plan before a sandbox for it can be begun.

use bulkhead_linux::midwife::Network;
use bulkhead_policy::Plan;
use bulkhead_spec as spec;

/// What sets sandboxes apart from their first step on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) network: Network,
    pub(super) root: Parts,
}

/// What its root is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// The host's own programs and settings.
    Host,
    /// Another directory.
    Other,
}

impl Shape {
    /// What most plans ask for.
    pub(super) const USUAL: Self = Self { network: Network::Own, root: Parts::Host };

    pub(super) fn of(plan: &Plan) -> Self {
        let network = match plan.network() {
            spec::Network::None | spec::Network::Proxy | spec::Network::Observe => Network::Own,
            spec::Network::Open => Network::Host,
        };
        let root = match plan.root() {
            spec::Root::Host => Parts::Host,
            spec::Root::Directory(_) | spec::Root::Image(_) => Parts::Other,
        };
        Self { network, root }
    }
}
