//! Who may be reached.
//!
//! Every question is answered by one snapshot of the rules, and the answer depends on nothing
//! but the rules and what is asked: never on what was answered before.

mod address;
mod rules;
mod verdict;

use std::collections::BTreeSet;

use bulkhead_spec::{
    Budget, Egress, EgressLimits, HostPattern, Label, Network, Ports, Preset, Rule,
    SecretBinding, Sourced, Target, Wire,
};
use serde::{Deserialize, Serialize};

pub use address::AddressClass;
pub use rules::EgressRules;
pub use verdict::{Allowance, Reason, Refusal, Scope, Speech, Verdict};

/// The most that sandboxes of this machine may reach, as its owner wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressCeiling {
    /// Lists of rules, one from each layer that has one; a host is reached only if every list
    /// allows it.
    pub allow: BTreeSet<BTreeSet<Sourced>>,
    /// What nobody reaches.
    pub deny: BTreeSet<Sourced>,
    /// How much may pass.
    pub limits: EgressLimits,
}

impl EgressCeiling {
    /// The ceiling that allows only what both `self` and `other` allow.
    #[must_use]
    pub fn narrowed_by(mut self, other: Self) -> Self {
        self.allow.extend(other.allow);
        self.deny.extend(other.deny);
        self.limits = self.limits.lowest(other.limits);
        self
    }
}

/// What was decided about the way out of one sandbox.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EgressPlan {
    pub(crate) rules: EgressRules,
    pub(crate) secrets: Vec<SecretBinding>,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) limits: EgressLimits,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<Label>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alias: Option<String>,
}

impl EgressPlan {
    /// Whether it says nothing.
    pub(crate) fn is_silent(&self) -> bool {
        self.rules == EgressRules::default()
            && self.secrets.is_empty()
            && self.budgets.is_empty()
            && self.limits == EgressLimits::default()
            && self.network.is_none()
    }

    /// The rules to judge by, until they are replaced.
    pub fn rules(&self) -> &EgressRules {
        &self.rules
    }

    /// Which secrets go where.
    pub fn secrets(&self) -> &[SecretBinding] {
        &self.secrets
    }

    /// How much may be spent, and where.
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    /// How much may pass in all.
    pub fn limits(&self) -> EgressLimits {
        self.limits
    }

    /// What the others in its private network call it, if that is not its name on this host.
    pub fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// The private network that the sandbox is in.
    pub fn network(&self) -> Option<&Label> {
        self.network.as_ref()
    }
}

/// Decides about the way out: what is asked for, as far as the ceiling allows it.
pub(crate) fn resolve(wish: Egress, network: Network, ceiling: &EgressCeiling) -> EgressPlan {
    let (mut allow, mut deny) = (wish.allow, wish.deny);
    if network == Network::Observe {
        allow.extend([Ports::Web, Ports::One(22)].map(everybody));
        deny.extend(Preset::Open.deny());
    }
    EgressPlan {
        rules: EgressRules::new(allow, deny).under(ceiling),
        secrets: wish.secrets,
        budgets: wish.budgets,
        limits: wish.limits.lowest(ceiling.limits),
        network: wish.network,
        alias: wish.alias,
    }
}

/// The rule that lets an observed sandbox reach what it wants, so that it can be written down.
fn everybody(ports: Ports) -> Sourced {
    let target = Target::Names(HostPattern::Any);
    let rule = Rule { target, ports, wire: Wire::Usual, methods: BTreeSet::new(), path: None };
    Sourced { rule, origin: "observe".to_owned() }
}
