//! What passes, and how much of it may.

mod purse;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use bulkhead_spec::{Budget, Bytes, EgressLimits, EgressUsage, Host, HostUsage};

pub(crate) use purse::Purse;

use crate::{destination::Destination, report::Report};

/// Connections at one time, unless somebody said otherwise.
const CONNECTIONS: u32 = 256;

/// Hosts that are counted one by one; the rest is counted together only.
const HOSTS: usize = 1024;

/// Counts everything that one sandbox sends and gets.
pub(crate) struct Meter {
    limits: EgressLimits,
    open: Arc<AtomicU32>,
    total: Arc<Counts>,
    hosts: Mutex<HashMap<Destination, Arc<Counts>>>,
    purses: Vec<Arc<Purse>>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

/// One of the connections that may be open at a time; given back when dropped.
pub(crate) struct Seat(Arc<AtomicU32>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Where the traffic of one connection is counted.
pub(crate) struct Toll {
    limits: EgressLimits,
    total: Arc<Counts>,
    host: Arc<Counts>,
    purses: Vec<Arc<Purse>>,
}

impl Meter {
    pub(crate) fn new(
        limits: EgressLimits,
        budgets: Vec<Budget>,
        report: &Arc<Report>,
    ) -> Self {
        let purse = |budget| Arc::new(Purse::new(budget, Arc::clone(report)));
        Self {
            limits,
            open: Arc::default(),
            total: Arc::default(),
            hosts: Mutex::default(),
            purses: budgets.into_iter().map(purse).collect(),
        }
    }

    /// Connections that may be open at one time.
    pub(crate) fn most_connections(&self) -> usize {
        let most = self.limits.connections.unwrap_or(CONNECTIONS);
        usize::try_from(most).unwrap_or(usize::MAX).min(1 << 20)
    }

    /// Lets a connection in, if there is room and something left to spend.
    pub(crate) fn enter(&self, to: &Destination) -> Result<(Seat, Toll), &'static str> {
        let seat = self.seat()?;
        let toll = self.toll(to);
        toll.check_connection()?;
        toll.total.connections.fetch_add(1, Relaxed);
        toll.host.connections.fetch_add(1, Relaxed);
        Ok((seat, toll))
    }

    /// Lets a connection in for which nothing is counted, if there is room.
    pub(crate) fn seat(&self) -> Result<Seat, &'static str> {
        let most = self.limits.connections.unwrap_or(CONNECTIONS);
        let before = self.open.fetch_add(1, Relaxed);
        let seat = Seat(Arc::clone(&self.open));
        if before >= most {
            return Err("too many connections are open at once");
        }
        Ok(seat)
    }

    fn toll(&self, to: &Destination) -> Toll {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = match hosts.get(to) {
            Some(known) => Arc::clone(known),
            None if hosts.len() >= HOSTS => Arc::default(),
            None => Arc::clone(hosts.entry(to.clone()).or_default()),
        };
        let covering = self.purses.iter().filter(|it| it.covers(&to.host));
        Toll {
            limits: self.limits,
            total: Arc::clone(&self.total),
            host,
            purses: covering.cloned().collect(),
        }
    }

    /// Whether a budget can only be kept by reading what a model of `host` answers.
    pub(crate) fn counts_tokens_of(&self, host: &Host) -> bool {
        self.purses.iter().any(|it| it.counts_tokens_of(host))
    }

    /// What has passed so far, without who was refused.
    pub(crate) fn usage(&self) -> EgressUsage {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hosts: Vec<_> = hosts
            .iter()
            .map(|(Destination { host, port }, counts)| HostUsage {
                host: host.clone(),
                port: *port,
                connections: counts.connections.load(Relaxed),
                requests: counts.requests.load(Relaxed),
                up: counts.up.load(Relaxed),
                down: counts.down.load(Relaxed),
            })
            .collect();
        hosts.sort_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
        EgressUsage {
            connections: self.total.connections.load(Relaxed),
            requests: self.total.requests.load(Relaxed),
            up: self.total.up.load(Relaxed),
            down: self.total.down.load(Relaxed),
            hosts,
            budgets: self.purses.iter().map(|it| it.spent()).collect(),
            ..EgressUsage::default()
        }
    }
}

impl Toll {
    /// One that nothing is counted against.
    pub(crate) fn free() -> Self {
        Self {
            limits: EgressLimits::default(),
            total: Arc::default(),
            host: Arc::default(),
            purses: Vec::new(),
        }
    }

    /// Counts bytes on their way out; an error says what is used up.
    pub(crate) fn up(&self, bytes: u64) -> Result<(), &'static str> {
        self.host.up.fetch_add(bytes, Relaxed);
        let total = self.total.up.fetch_add(bytes, Relaxed) + bytes;
        within(total, self.limits.up, "no more bytes may be sent")?;
        self.purses.iter().try_for_each(|it| it.bytes(bytes))
    }

    /// Counts bytes on their way in; an error says what is used up.
    pub(crate) fn down(&self, bytes: u64) -> Result<(), &'static str> {
        self.host.down.fetch_add(bytes, Relaxed);
        let total = self.total.down.fetch_add(bytes, Relaxed) + bytes;
        within(total, self.limits.down, "no more bytes may be received")?;
        self.purses.iter().try_for_each(|it| it.bytes(bytes))
    }

    /// Counts a request; an error says what is used up.
    pub(crate) fn request(&self) -> Result<(), &'static str> {
        self.check(self.total.requests.load(Relaxed))?;
        self.purses.iter().try_for_each(|it| it.check())?;
        self.host.requests.fetch_add(1, Relaxed);
        self.total.requests.fetch_add(1, Relaxed);
        self.purses.iter().try_for_each(|it| it.request())
    }

    /// The budgets that what passes here counts against.
    pub(crate) fn purses(&self) -> &[Arc<Purse>] {
        &self.purses
    }

    /// Whether there may be another connection.
    fn check_connection(&self) -> Result<(), &'static str> {
        let asked = self.total.connections.load(Relaxed).max(self.total.requests.load(Relaxed));
        self.check(asked)?;
        // Where requests are read, they are what is refused: whoever asked can then read why.
        self.purses.iter().filter(|it| !it.is_about_models()).try_for_each(|it| it.check())
    }

    /// Whether anything may still pass, after so many that have.
    fn check(&self, asked: u64) -> Result<(), &'static str> {
        if self.limits.requests.is_some_and(|most| asked >= most) {
            return Err("no more requests may be made");
        }
        let (up, down) = (self.total.up.load(Relaxed), self.total.down.load(Relaxed));
        within(up, self.limits.up, "no more bytes may be sent")?;
        within(down, self.limits.down, "no more bytes may be received")
    }
}

fn within(so_far: u64, limit: Option<Bytes>, why: &'static str) -> Result<(), &'static str> {
    if limit.is_some_and(|Bytes(most)| so_far > most) { Err(why) } else { Ok(()) }
}
