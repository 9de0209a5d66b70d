//! What a gateway knows about its one sandbox.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use bulkhead_policy::EgressRules;
use bulkhead_spec::{Budget, EgressEvent, Host};
use tokio::sync::{Semaphore, watch};

use crate::{
    BoundSecret, Connector, GatewayPlan, Neighbours, Resolver, StartFailed, Timings, Upstream,
    authority::Authority, destination::Destination, meter::Meter, report::Report,
    synthetic::Names, trust::Trust, vault::Vault,
};

/// Connections that may be there without having said what they want.
const WAITING: usize = 64;

/// The shared state behind every entrance of one sandbox.
pub(crate) struct Room {
    rules: watch::Sender<Arc<EgressRules>>,
    pub(crate) meter: Meter,
    pub(crate) report: Arc<Report>,
    pub(crate) names: Names,
    pub(crate) neighbours: Option<Arc<dyn Neighbours>>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) upstream: Upstream,
    pub(crate) own: Vec<SocketAddr>,
    pub(crate) timings: Timings,
    vault: Mutex<Arc<Vault>>,
    pub(crate) authority: Option<Authority>,
    pub(crate) trust: Trust,
    /// How many connections may be served at once, judged or not.
    pub(crate) lobby: Arc<Semaphore>,
}

impl Room {
    pub(crate) fn new(plan: GatewayPlan, report: Arc<Report>) -> Result<Self, StartFailed> {
        let vault = Vault::new(plan.secrets)?;
        let about_requests = |it: &bulkhead_spec::Sourced| it.rule.is_about_requests();
        let reads = !vault.is_empty()
            || plan.budgets.iter().any(Budget::is_about_models)
            || plan.rules.allowed().iter().chain(plan.rules.denied()).any(about_requests);
        let authority = reads.then(Authority::new).transpose();
        let authority = authority.map_err(|it| StartFailed::Authority(it.to_string()))?;
        let trust = Trust::new(&plan.upstream).map_err(StartFailed::Roots)?;
        let meter = Meter::new(plan.limits, plan.budgets, &report);
        Ok(Self {
            rules: watch::Sender::new(Arc::new(plan.rules)),
            lobby: Arc::new(Semaphore::new(meter.most_connections() + WAITING)),
            meter,
            vault: Mutex::new(Arc::new(vault)),
            authority,
            trust,
            report,
            names: Names::new(plan.synthetic),
            neighbours: plan.neighbours,
            resolver: plan.resolver,
            connector: plan.connector,
            upstream: plan.upstream,
            own: plan.own,
            timings: plan.timings,
        })
    }

    /// The same destination by the name that its address stands for, if it stands for one.
    pub(crate) fn named(&self, destination: Destination) -> Destination {
        let name = match &destination.host {
            Host::Address(IpAddr::V4(address)) => self.names.name_of(*address),
            Host::Address(IpAddr::V6(_)) | Host::Name(_) => None,
        };
        match name {
            Some(name) => Destination { host: name.into(), port: destination.port },
            None => destination,
        }
    }

    /// The rules of this moment; what is decided by them stays decided by them.
    pub(crate) fn rules(&self) -> Arc<EgressRules> {
        Arc::clone(&self.rules.borrow())
    }

    /// The rules of this moment, and word when they are replaced.
    pub(crate) fn watch_rules(&self) -> watch::Receiver<Arc<EgressRules>> {
        self.rules.subscribe()
    }

    /// The secrets of this moment.
    pub(crate) fn vault(&self) -> Arc<Vault> {
        Arc::clone(&self.vault.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `headers` set from now on, instead of those whose names begin with `prefix`.
    pub(crate) fn set_headers(
        &self,
        prefix: &str,
        headers: Vec<BoundSecret>,
    ) -> io::Result<()> {
        let mut vault = self.vault.lock().unwrap_or_else(PoisonError::into_inner);
        *vault = Arc::new(vault.with_headers(prefix, headers)?);
        Ok(())
    }

    /// Replaces the rules. What is under way and not allowed any more is cut.
    pub(crate) fn replace_rules(&self, rules: EgressRules) {
        let (allow, deny) = (rules.allowed().len(), rules.denied().len());
        self.rules.send_replace(Arc::new(rules));
        self.report.say(EgressEvent::RulesChanged { allow, deny });
    }
}
