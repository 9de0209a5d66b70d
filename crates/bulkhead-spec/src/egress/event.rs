//! What the way out has to say, and what passed through it.

use serde::Serialize;

use super::{Host, budget::Spent};

/// One thing that happened on the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "egress", rename_all = "snake_case")]
pub enum EgressEvent {
    /// A host was reached for the first time.
    Allowed {
        /// Which one.
        host: Host,
        /// On which port.
        port: u16,
        /// The rule that allowed it.
        rule: String,
        /// Who said the rule.
        origin: String,
    },
    /// A host was refused for the first time.
    Denied(DeniedHost),
    /// A connection has ended.
    Closed {
        /// Whose.
        host: Host,
        /// On which port.
        port: u16,
        /// Bytes from the sandbox.
        up: u64,
        /// Bytes to the sandbox.
        down: u64,
    },
    /// A request was read, judged and answered.
    Request {
        /// Of which host.
        host: Host,
        /// On which port.
        port: u16,
        /// Its method.
        method: String,
        /// Its path, without the query; only the beginning if it is long.
        path: String,
        /// The status of the answer.
        status: u16,
    },
    /// So many connections and requests were listed; from here on they are only counted.
    Unlisted {
        /// How many.
        after: u64,
    },
    /// A secret was put in its place, for the first time at this host.
    SecretUsed {
        /// Its name.
        name: String,
        /// Where it went.
        host: Host,
    },
    /// Most of a budget is spent.
    BudgetLow(Spent),
    /// A budget is spent; what it covers is refused from here on.
    BudgetSpent(Spent),
    /// The rules were replaced while the sandbox ran.
    RulesChanged {
        /// How many allow.
        allow: usize,
        /// How many deny.
        deny: usize,
    },
}

/// A host that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedHost {
    /// Which one, as far as it could be read.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// Why, in a sentence.
    pub reason: String,
    /// The rule that refused it; `None` if there was none that allowed it.
    pub rule: Option<String>,
    /// Who said that rule.
    pub origin: Option<String>,
    /// The rule that would allow it, if one could.
    pub allow_with: Option<String>,
    /// How often, so far.
    pub times: u64,
}

/// What passed through, over the life of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EgressUsage {
    /// Which connections of programs that know of no proxy led here.
    pub caught: Caught,
    /// Connections that were allowed.
    pub connections: u64,
    /// Requests that were read, of hosts where they are.
    pub requests: u64,
    /// Bytes from the sandbox.
    pub up: u64,
    /// Bytes to the sandbox.
    pub down: u64,
    /// Hosts that were reached.
    pub hosts: Vec<HostUsage>,
    /// Hosts that were refused.
    pub denied: Vec<DeniedHost>,
    /// What was spent of each budget.
    pub budgets: Vec<Spent>,
    /// What passed between it and its neighbours, if it was on a private network. None of it is in
    /// the other figures, since it went nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<NeighbourUsage>,
}

/// What passed between a sandbox and its neighbours on a private network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NeighbourUsage {
    /// Bytes from the sandbox, in whole packets.
    pub up: u64,
    /// Bytes to the sandbox.
    pub down: u64,
}

impl EgressUsage {
    /// The hosts that were refused, as `host:port`.
    pub fn denied_hosts(&self) -> Vec<String> {
        self.denied.iter().map(|it| format!("{}:{}", it.host, it.port)).collect()
    }
}

/// Which connections of programs that know of no proxy lead to the gateway. All others are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caught {
    /// Those to any address.
    #[default]
    EveryAddress,
    /// Those to a name: names stand for addresses of loopback, and no other address has a route.
    Names,
}

/// What passed to and from one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostUsage {
    /// Which one.
    pub host: Host,
    /// On which port.
    pub port: u16,
    /// Connections.
    pub connections: u64,
    /// Requests that were read.
    pub requests: u64,
    /// Bytes from the sandbox.
    pub up: u64,
    /// Bytes to the sandbox.
    pub down: u64,
}
