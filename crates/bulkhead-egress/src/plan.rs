//! What a gateway is told before it starts.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use bulkhead_policy::EgressRules;
use bulkhead_spec::{Budget, EgressLimits, Host, HostPattern, Secret, SetHeader, escape};

use crate::{Connector, Direct, Neighbours, Range, Resolver, SystemResolver};

/// Everything a gateway needs to know about its one sandbox.
///
/// The default lets nothing out.
pub struct GatewayPlan {
    /// What may be reached, until it is [replaced](crate::Gateway::replace_rules).
    pub rules: EgressRules,
    /// How much may pass.
    pub limits: EgressLimits,
    /// How much may be spent, and where.
    pub budgets: Vec<Budget>,
    /// Values that programs may use without seeing them.
    pub secrets: Vec<BoundSecret>,
    /// How the host itself gets out.
    pub upstream: Upstream,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// Who makes connections to addresses that were looked at.
    pub connector: Arc<dyn Connector>,
    /// Sockets of Bulkhead itself on the host, which nobody inside may reach.
    pub own: Vec<SocketAddr>,
    /// Addresses that stand for names inside.
    pub synthetic: Range,
    /// Who knows the sandboxes on the same private network, if it is on one.
    pub neighbours: Option<Arc<dyn Neighbours>>,
    /// How long is waited for what.
    pub timings: Timings,
}

impl Default for GatewayPlan {
    fn default() -> Self {
        Self {
            rules: EgressRules::default(),
            limits: EgressLimits::default(),
            budgets: Vec::new(),
            secrets: Vec::new(),
            upstream: Upstream::default(),
            resolver: Arc::new(SystemResolver::default()),
            connector: Arc::new(Direct),
            own: Vec::new(),
            synthetic: Range::Benchmark,
            neighbours: None,
            timings: Timings::default(),
        }
    }
}

/// A secret and the hosts that it is for.
#[derive(Clone, Debug)]
pub struct BoundSecret {
    /// The variable that holds its placeholder inside.
    pub name: String,
    /// The value, which stays outside.
    pub value: Secret,
    /// Where it may go.
    pub hosts: Vec<HostPattern>,
    /// The header that is set to it, whatever a program says there.
    pub header: Option<SetHeader>,
}

/// How the host itself gets out.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    /// The proxy that stands between the host and the world.
    pub proxy: Option<ProxyAddress>,
    /// Hosts that are reached without it, as `NO_PROXY` lists them.
    pub direct: Vec<String>,
    /// Certificate authorities besides those of the host, in PEM.
    pub roots: Vec<String>,
    /// Files with more of them, read when somebody's word is judged for the first time. One that
    /// cannot be read vouches for nobody.
    pub files: Vec<PathBuf>,
}

impl Upstream {
    /// The proxy to use for `host`, if any.
    pub(crate) fn proxy_for(&self, host: &Host) -> Option<&ProxyAddress> {
        let text = host.to_string();
        let direct = |entry: &String| {
            let entry = entry.trim().trim_start_matches("*.").trim_start_matches('.');
            entry == "*" || text == entry || text.ends_with(&format!(".{entry}"))
        };
        self.proxy.as_ref().filter(|_| !self.direct.iter().any(direct))
    }
}

/// A proxy that speaks HTTP.
#[derive(Clone, Debug)]
pub struct ProxyAddress {
    /// Where it is.
    pub host: Host,
    /// On which port.
    pub port: u16,
    /// What it wants to see, as `user:password`.
    pub login: Option<Secret>,
}

/// A text that names no proxy. It may hold a password, so it is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of the proxy is not of the form http://[USER:PASSWORD@]HOST[:PORT]")]
pub struct InvalidProxy;

impl FromStr for ProxyAddress {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(InvalidProxy),
            None => text,
        };
        let rest = rest.trim_end_matches('/');
        let (login, authority) = match rest.rsplit_once('@') {
            Some((login, authority)) => (Some(Secret::new(login)), authority),
            None => (None, rest),
        };
        let at = crate::destination::Destination::from_authority(authority, Some(80));
        let at = at.ok_or(InvalidProxy)?;
        Ok(Self { host: at.host, port: at.port, login })
    }
}

impl std::fmt::Display for ProxyAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", escape(&self.host.to_string()), self.port)
    }
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// For a program to say what it wants: a request's head, a TLS hello, a SOCKS greeting.
    pub handshake: Duration,
    /// For the address of a name.
    pub resolve: Duration,
    /// For a host to accept a connection.
    pub dial: Duration,
    /// For the next byte on a connection where nothing happens.
    pub idle: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            resolve: Duration::from_secs(5),
            dial: Duration::from_secs(10),
            idle: Duration::from_mins(15),
        }
    }
}
