//! A world of a few hosts, a gateway in front of it, and somebody inside who wants out.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
};

use bulkhead_egress::{
    Connecting, Connector, Entrances, Gateway, GatewayPlan, Range, Resolver, Resolving,
};
use bulkhead_policy::EgressRules;
use bulkhead_spec::{EgressEvent, HostName, allowing, denying};
use tokio::net::TcpStream;

/// What names resolve to, what addresses lead to, and who was asked for either.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) names: Mutex<HashMap<String, Vec<IpAddr>>>,
    places: Mutex<HashMap<SocketAddr, SocketAddr>>,
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

impl World {
    /// `name` has `address`, and what is said to it on `port` is heard at `at`.
    pub(crate) fn put(&self, name: &str, address: &str, port: u16, at: SocketAddr) {
        let address: IpAddr = address.parse().unwrap();
        let mut names = self.names.lock().unwrap();
        let known = names.entry(name.to_owned()).or_default();
        if !known.contains(&address) {
            known.push(address);
        }
        self.places.lock().unwrap().insert(SocketAddr::new(address, port), at);
    }

    pub(crate) fn name(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), addresses);
    }
}

impl Resolver for World {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        self.asked.lock().unwrap().push(name.to_string());
        let found = self.names.lock().unwrap().get(name.as_str()).cloned();
        Box::pin(async move { found.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

impl Connector for World {
    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        self.dialled.lock().unwrap().push(address);
        let place = self.places.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            match place {
                Some(place) => TcpStream::connect(place).await,
                // The host's own services are where they are.
                None if address.ip().is_loopback() => TcpStream::connect(address).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address == IpAddr::from([203, 0, 113, 99])
    }
}

/// A gateway and its ways in.
pub(crate) struct Stage {
    pub(crate) world: Arc<World>,
    pub(crate) gateway: Gateway,
    pub(crate) http: SocketAddr,
    pub(crate) socks: SocketAddr,
    pub(crate) events: Arc<Mutex<Vec<EgressEvent>>>,
}

pub(crate) fn rules(allow: &[&str], deny: &[&str]) -> EgressRules {
    let allow = allow.iter().flat_map(|it| allowing(it, "--allow").unwrap()).collect();
    let deny = deny.iter().flat_map(|it| denying(it, "--deny").unwrap()).collect();
    EgressRules::new(allow, deny)
}

impl Stage {
    /// A gateway by these rules.
    pub(crate) fn new(world: &Arc<World>, allow: &[&str], deny: &[&str]) -> Self {
        Self::with(world, GatewayPlan { rules: rules(allow, deny), ..plan() })
    }

    pub(crate) fn with(world: &Arc<World>, plan: GatewayPlan) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (http, socks) = (listen(), listen());
        let (at_http, at_socks) = (http.local_addr().unwrap(), socks.local_addr().unwrap());
        let entrances =
            Entrances { http: vec![http], socks: vec![socks], ..Entrances::default() };
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let plan = GatewayPlan {
            resolver: Arc::clone(world) as Arc<dyn Resolver>,
            connector: Arc::clone(world) as Arc<dyn Connector>,
            synthetic: Range::Loopback,
            ..plan
        };
        let sink = move |event| heard.lock().unwrap().push(event);
        let gateway = Gateway::start(plan, entrances, sink).unwrap();
        Self { world: Arc::clone(world), gateway, http: at_http, socks: at_socks, events }
    }

    /// Every host that was refused, as it was said.
    pub(crate) fn denied(&self) -> Vec<(String, u16)> {
        let events = self.events.lock().unwrap();
        let denied = |event: &EgressEvent| match event {
            EgressEvent::Denied(it) => Some((it.host.clone(), it.port)),
            EgressEvent::Allowed { .. }
            | EgressEvent::Closed { .. }
            | EgressEvent::Request { .. }
            | EgressEvent::SecretUsed { .. }
            | EgressEvent::BudgetLow(_)
            | EgressEvent::BudgetSpent(_)
            | EgressEvent::Unlisted { .. }
            | EgressEvent::RulesChanged { .. } => None,
        };
        events.iter().filter_map(denied).collect()
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.world.dialled.lock().unwrap().clone()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.world.asked.lock().unwrap().clone()
    }
}

/// A plan that lets nothing out and does not wait for long.
pub(crate) fn plan() -> GatewayPlan {
    let mut plan = GatewayPlan::default();
    plan.timings.handshake = std::time::Duration::from_millis(1500);
    plan
}
