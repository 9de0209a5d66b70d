//! The way out of a sandbox: prepared before it is built, served while it lives, and gone with it.
//!
//! Invariant: the gateway belongs to the process that supervises the sandbox. If that ends, however
//! it ends, the doors inside lead nowhere.

mod control;
mod trust;

use std::{fmt, path::PathBuf, sync::Arc};

use bulkhead_backends::{
    Doors, Sandbox, Sockets,
    guest::{Connections, Datagrams, Listener},
    ports,
};
use bulkhead_egress::{
    BoundSecret, Connector, Direct, Entrances, Gateway, GatewayPlan, Range, Resolver,
    StartFailed, SystemResolver, Upstream,
};
use bulkhead_policy::{EgressRules, Guide, Plan};
use bulkhead_spec::{
    Caught, Change, EgressEvent, EgressUsage, Event, InvalidLabel, Label, Network, Secret,
    SecretBinding,
};

use tokio::task::JoinSet;

use self::control::Control;
pub use self::control::{Ask, Headers, Reply, ask, socket_of};
use crate::{Ledger, RunError, engine::describe, neighbours::Member};

/// What the host adds to the way out of its sandboxes.
pub struct Outside {
    /// Who knows the values of secrets.
    pub secrets: Box<dyn Secrets>,
    /// How the host itself gets out.
    pub upstream: Upstream,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// Who makes connections.
    pub connector: Arc<dyn Connector>,
    /// Where the sockets are by which rules are changed while a sandbox runs, if they are to be.
    pub sockets: Option<PathBuf>,
    /// Where private networks are, if there are to be any.
    pub networks: Option<PathBuf>,
}

impl Default for Outside {
    /// The host's own names and connections, and no secrets.
    fn default() -> Self {
        Self {
            secrets: Box::new(NoSecrets),
            upstream: Upstream::default(),
            resolver: Arc::new(SystemResolver::default()),
            connector: Arc::new(Direct),
            sockets: None,
            networks: None,
        }
    }
}

/// Somebody who knows the values of secrets.
pub trait Secrets: Send + Sync {
    /// The value that `binding` speaks of, or why there is none.
    fn value(&self, binding: &SecretBinding) -> Result<Secret, String>;
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn value(&self, _: &SecretBinding) -> Result<Secret, String> {
        Err("there are no secrets here".to_owned())
    }
}

/// The way out of one sandbox.
pub(crate) struct WayOut {
    // Declared before the gateway: nobody changes the rules of one that is gone.
    control: Option<Control>,
    /// Who passes on what a guest takes, where sockets are not handed over.
    passing: JoinSet<()>,
    caught: Caught,
    gateway: Arc<Gateway>,
    member: Option<Member>,
}

impl fmt::Debug for WayOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WayOut")
    }
}

impl WayOut {
    /// Prepares the gateway of `plan`, if it wants one; nobody can reach it yet. What leads to it
    /// will be `caught`.
    pub(crate) fn prepare(
        id: &str,
        (plan, caught): (&Plan, Caught),
        outside: &Outside,
        ledger: &Arc<dyn Ledger>,
    ) -> Result<Option<Self>, RunError> {
        match plan.network() {
            Network::Proxy | Network::Observe => {}
            Network::None | Network::Open => return Ok(None),
        }
        let egress = plan.egress();
        let name = egress.alias().unwrap_or(id);
        let member = egress.network().map(|it| join(name, it, outside)).transpose()?;
        let secrets = egress.secrets().iter().map(|it| bound(it, outside));
        let gateway = GatewayPlan {
            rules: egress.rules().clone(),
            limits: egress.limits(),
            budgets: egress.budgets().to_vec(),
            secrets: secrets.collect::<Result<_, _>>()?,
            upstream: outside.upstream.clone(),
            resolver: Arc::clone(&outside.resolver),
            connector: Arc::clone(&outside.connector),
            synthetic: match caught {
                Caught::EveryAddress => Range::Benchmark,
                Caught::Names => Range::Loopback,
            },
            neighbours: member.as_ref().map(Member::neighbours),
            ..GatewayPlan::default()
        };
        let recorded = recorder(id.to_owned(), Arc::clone(ledger));
        let gateway = Gateway::start(gateway, Entrances::default(), recorded)?;
        let gateway = Arc::new(gateway);
        let control = outside.sockets.as_ref().map(|dir| Control::open(dir, id, &gateway));
        let control = control.transpose().map_err(StartFailed::from)?;
        Ok(Some(Self { control, passing: JoinSet::new(), caught, gateway, member }))
    }

    /// What programs must know of it.
    pub(crate) fn guide(&self) -> Guide {
        Guide {
            placeholders: self.gateway.placeholders(),
            trust: self.gateway.certificate().map(trust::with),
            neighbours: self.member.as_ref().map(Member::place),
        }
    }

    /// Answers at the doors of `sandbox`, which is as `plan` says, from now on.
    pub(crate) fn serve(&mut self, sandbox: &dyn Sandbox, plan: &Plan) -> Result<(), RunError> {
        // One that has no doors has failed, and its first program is told why.
        let Some(doors) = sandbox.take_doors() else { return Ok(()) };
        if let (Some(member), Some(link)) = (&self.member, sandbox.guest()) {
            member.dial_by(link.clone());
        }
        match doors {
            Doors::Sockets(mut sockets) => {
                if let (Some(member), Some(cable)) = (&mut self.member, sockets.cable.take()) {
                    let connected = member.connect(cable, ports(plan));
                    connected.map_err(|error| RunError::WayOut(error.into()))?;
                }
                self.open(sockets)
            }
            Doors::Channels(Listener { connections, datagrams }) => {
                let gateway = Arc::clone(&self.gateway);
                self.passing.spawn(adopt(gateway, connections));
                let gateway = Arc::clone(&self.gateway);
                self.passing.spawn(answer(gateway, datagrams));
                Ok(())
            }
        }
    }

    fn open(&self, sockets: Sockets) -> Result<(), RunError> {
        let Sockets { proxy, socks, mut streams, names, names_by_stream, cable: _ } = sockets;
        streams.push(names_by_stream);
        let entrances = Entrances {
            http: vec![proxy],
            socks: vec![socks],
            transparent: streams,
            dns: vec![names],
        };
        self.gateway.open(entrances).map_err(|error| RunError::WayOut(error.into()))
    }

    /// Begins to shut it: nobody is left inside who could use it.
    pub(crate) fn close(&self) {
        self.gateway.close();
    }

    /// Allows and denies more from now on. What the machine's owner forbids stays forbidden.
    pub(crate) fn change(&self, change: &Change) {
        if change.allow.is_empty() && change.deny.is_empty() {
            return;
        }
        let rules = EgressRules::clone(&self.gateway.rules());
        let rules = change.allow.iter().cloned().fold(rules, EgressRules::allowing);
        let rules = change.deny.iter().cloned().fold(rules, EgressRules::denying);
        self.gateway.replace_rules(rules);
    }

    /// Shuts it, and says what has passed.
    pub(crate) fn end(self) -> EgressUsage {
        let neighbours = self.member.as_ref().map(Member::usage);
        drop((self.control, self.passing, self.member));
        EgressUsage { caught: self.caught, neighbours, ..self.gateway.shutdown() }
    }

    /// What has passed until now.
    pub(crate) fn usage(&self) -> EgressUsage {
        let neighbours = self.member.as_ref().map(Member::usage);
        EgressUsage { caught: self.caught, neighbours, ..self.gateway.usage() }
    }
}

/// Hands over every connection that a guest passes on.
async fn adopt(gateway: Arc<Gateway>, mut connections: Connections) {
    while let Some(connection) = connections.accept().await {
        gateway.adopt(connection.channel, connection.local);
    }
}

/// Answers every question for a name that a guest passes on.
async fn answer(gateway: Arc<Gateway>, mut datagrams: Datagrams) {
    while let Some(question) = datagrams.receive().await {
        if let Some(answer) = gateway.answer(&question.bytes) {
            datagrams.answer(&question, answer);
        }
    }
}

/// Takes a place in `network` for the sandbox `name`.
fn join(name: &str, network: &Label, outside: &Outside) -> Result<Member, RunError> {
    let refused = |why: String| RunError::Room { what: "cannot join a private network", why };
    let name = name.parse().map_err(|it: InvalidLabel| refused(it.to_string()))?;
    let networks = outside.networks.as_ref();
    let networks = networks.ok_or_else(|| refused("there is no directory for them".into()))?;
    Member::join(networks, network, &name).map_err(|it| refused(describe(&it)))
}

fn bound(binding: &SecretBinding, outside: &Outside) -> Result<BoundSecret, RunError> {
    let SecretBinding { name, source: _, hosts, header } = binding;
    let value = outside
        .secrets
        .value(binding)
        .map_err(|why| RunError::Secret { name: name.clone(), why })?;
    Ok(BoundSecret { name: name.clone(), value, hosts: hosts.clone(), header: header.clone() })
}

/// Writes down what the gateway says.
fn recorder(id: String, ledger: Arc<dyn Ledger>) -> impl Fn(EgressEvent) + Send + Sync {
    move |event| {
        if let Err(error) = ledger.record(&id, &Event::Egress(event)) {
            tracing::warn!(%error, "what left a sandbox is not on record");
        }
    }
}
