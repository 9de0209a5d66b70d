//! One room, and what its guests were promised.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bulkhead_engine::rooms::{Client, ClientError, Lifetime, Then};
use bulkhead_spec::{Exec, Span};
use serde::{Deserialize, Serialize};

use crate::{
    e2b::{envd::Watchers, interpreter::Interpreter, network::Wish},
    locked::locked,
    templates::Version,
    wire::Wire,
};

/// Whether a room is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frozen {
    Yes,
    No,
}

/// A room, and what its guests were promised.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: String,
    pub(crate) client: Client,
    pub(crate) facts: Facts,
    /// When its time is over.
    end: Mutex<SystemTime>,
    pub(crate) paused: AtomicBool,
    /// What its maker said last about the network.
    network: Mutex<Wish>,
    /// Streams that end with the room.
    wires: Mutex<BTreeMap<u64, Wire>>,
    next: AtomicU64,
    /// Who gathers what changes in it.
    pub(crate) watchers: Watchers,
    /// Code that is run in it piece by piece.
    pub(crate) interpreter: Interpreter,
}

/// A stream that ends with its room.
#[derive(Debug)]
pub(crate) struct Binding {
    tenant: Arc<Tenant>,
    id: u64,
}

impl Drop for Binding {
    fn drop(&mut self) {
        locked(&self.tenant.wires).remove(&self.id);
    }
}

/// What was asked for, and must be known again after the server was restarted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) template: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) env: BTreeMap<String, String>,
    /// What opens the room's own doors, if they are locked.
    pub(crate) access: Option<String>,
    /// What opens its ports, if they are locked.
    #[serde(default)]
    pub(crate) traffic: Option<String>,
    #[serde(default)]
    pub(crate) network: Wish,
    /// Microseconds since 1970.
    pub(crate) started: u64,
    pub(crate) auto_pause: bool,
    pub(crate) auto_resume: bool,
}

impl Facts {
    /// Seconds since 1970, with their fraction.
    pub(crate) fn started_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.started)
    }

    /// How long a room of which this was asked lives, if it is `timeout` from now.
    pub(super) fn lifetime(&self, timeout: Duration) -> Lifetime {
        let then = if self.auto_pause { Then::Pause } else { Then::Kill };
        Lifetime { ttl: Some(Span(timeout)), idle: None, then }
    }
}

impl Tenant {
    /// A room that lives, until `end`.
    pub(crate) fn new(id: &str, client: Client, facts: Facts, end: SystemTime) -> Self {
        Self {
            id: id.to_owned(),
            client,
            network: Mutex::new(facts.network.clone()),
            facts,
            end: Mutex::new(end),
            paused: AtomicBool::new(false),
            wires: Mutex::default(),
            next: AtomicU64::new(0),
            watchers: Watchers::default(),
            interpreter: Interpreter::default(),
        }
    }

    /// Starts what every room of `version` runs.
    pub(super) async fn start(&self, version: &Version) {
        let Some(line) = &version.start else { return };
        let exec = Exec {
            argv: ["/bin/bash", "-l", "-c", line].map(Into::into).into(),
            dir: version.dir.as_ref().and_then(|it| it.parse().ok()),
            ..Exec::default()
        };
        if let Err(error) = self.client.spawn(exec, None).await {
            tracing::warn!(%error, room = self.id, "its start command was not started");
        }
    }

    /// What its maker said last about the network.
    pub(crate) fn network(&self) -> Wish {
        locked(&self.network).clone()
    }

    pub(crate) fn set_network(&self, wish: Wish) {
        *locked(&self.network) = wish;
    }

    /// When its time is over.
    pub(crate) fn ends_at(&self) -> SystemTime {
        *locked(&self.end)
    }

    /// Its time is over in `timeout` from now.
    pub(crate) async fn live_for(&self, timeout: Duration) -> Result<(), ClientError> {
        self.client.live(self.facts.lifetime(timeout)).await?;
        *locked(&self.end) = SystemTime::now() + timeout;
        Ok(())
    }

    /// Whether it is frozen.
    pub(crate) fn is_paused(&self) -> bool {
        let over = self.facts.auto_pause && self.ends_at() < SystemTime::now();
        over || self.paused.load(Ordering::Relaxed)
    }

    /// The stream on `wire` ends with the room, as long as the binding lives: afterwards the
    /// connection serves other requests.
    pub(crate) fn bind(self: &Arc<Self>, wire: Wire) -> Binding {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.wires).insert(id, wire);
        Binding { tenant: Arc::clone(self), id }
    }

    pub(super) fn cut(&self) {
        for wire in std::mem::take(&mut *locked(&self.wires)).into_values() {
            wire.cut();
        }
    }
}
