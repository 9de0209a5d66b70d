//! Sandboxes on the same private network.
//!
//! What goes to them does not go out, so no rule speaks of them: whoever is in the network may be
//! reached, on every port, and what is said is not read. Programs reach them by themselves once
//! they have an address; those that ask a proxy for everything get there by the gateway.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, SocketAddrV4},
    pin::Pin,
};

use bulkhead_policy::{Allowance, Scope, Speech, Verdict};
use bulkhead_spec::{Host, HostName, HostPattern, Ports, Rule, Sourced, Target, Wire};

use crate::{Duplex, gate::Permit, room::Room};

/// A connection to a neighbour that is on its way.
pub type Reaching<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send + 'a>>;

/// Somebody who knows the other sandboxes of a private network.
pub trait Neighbours: Send + Sync {
    /// The address of the one called `name`, if there is one now.
    fn address_of(&self, name: &HostName) -> Option<Ipv4Addr>;

    /// Connects to `address` from within the sandbox.
    fn reach(&self, address: SocketAddrV4) -> Reaching<'_>;
}

impl Room {
    /// The address of the neighbour that `host` is, if rules do not say something else by it.
    pub(crate) fn neighbour(&self, host: &Host) -> Option<Ipv4Addr> {
        let name = host.name().filter(|name| !self.rules().knows(name))?;
        self.neighbours.as_ref()?.address_of(name)
    }

    /// Where `host` is and what may be said to it, if it is a neighbour.
    pub(crate) fn welcome(&self, host: &Host) -> Option<(Ipv4Addr, Allowance)> {
        Some((self.neighbour(host)?, welcome(host.name()?)))
    }

    /// What is decided now about what `permit` is for, where rules have decided `verdict`. Who was
    /// let in by a rule is no neighbour when the rule is gone, whatever it is called.
    pub(crate) fn neighbourly(&self, permit: &Permit, verdict: Verdict) -> Verdict {
        match (verdict, permit.neighbour()) {
            (Verdict::Denied(refusal), Some(address)) => {
                match self.welcome(&permit.destination().host) {
                    Some((now, allowance)) if now == address => Verdict::Allowed(allowance),
                    Some(_) | None => Verdict::Denied(refusal),
                }
            }
            (verdict, Some(_) | None) => verdict,
        }
    }
}

/// What holds for every neighbour.
fn welcome(name: &HostName) -> Allowance {
    let rule = Rule {
        target: Target::Names(HostPattern::Exact(name.clone())),
        ports: Ports::Web,
        wire: Wire::Raw,
        methods: BTreeSet::new(),
        path: None,
    };
    Allowance {
        by: Sourced { rule, origin: "the private network".to_owned() },
        speech: [Speech::Raw].into(),
        scope: Scope::Connection,
    }
}
