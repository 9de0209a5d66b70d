//! The rooms that the server lets people into.

mod copies;
mod headers;
mod keepers;
mod pool;
mod tenant;
mod workshop;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bulkhead_engine::{
    rooms::{
        Admission, Client, Journal, JournalError, LaunchError, Life, Quota, Record, launch,
    },
    way_out::{self, Ask, Reply},
};
use bulkhead_policy::Policy;
use bulkhead_spec::{Egress, ImageRef, Mount, Network, Root, Spec};
use tokio::sync::Notify;

pub(crate) use self::{
    copies::{ForkError, OWN_LABELS, Place},
    tenant::{Facts, Frozen, Tenant},
    workshop::Workshop,
};
use crate::{
    api::{Api, Settings, meters::Meters},
    builds::{Builds, Cache},
    e2b::{interpreter::Interpreter, transforms::Header},
    keys::Keys,
    locked::locked,
    random,
    secrets::Secrets,
    templates::{Templates, Version},
    volumes::Volumes,
};

/// The label under which a room carries what its guests were promised.
const LABEL: &str = "bulkhead.e2b";

/// The template of rooms in which code is run piece by piece.
const INTERPRETER: &str = "code-interpreter-v1";

/// What every room is made from.
#[derive(Clone, Debug)]
pub struct Base {
    /// What it looks like.
    pub spec: Spec,
    /// The rules.
    pub policy: Policy,
    /// Who builds it.
    pub backend: String,
    /// What a container daemon starts it with.
    pub runtime: Option<String>,
    /// Bulkhead itself, to be started as a shim.
    pub program: PathBuf,
    /// Where the gateways of rooms take their orders.
    pub gateways: PathBuf,
    /// What the server itself keeps.
    pub state: PathBuf,
    /// What stands between a wish and a room.
    pub admission: Admission,
    /// How many rooms there may be at once.
    pub quota: Quota,
    /// How many wait, made ahead.
    pub pool: u32,
}

impl Base {
    /// The record of a room `id` that looks like `spec`, under the rules of every room and in the
    /// hands of whoever builds them all.
    pub(crate) fn record(&self, id: &str, spec: Spec) -> Record {
        let mut record = Record::new(id.to_owned(), id.to_owned(), spec, self.policy.clone());
        record.backend.clone_from(&self.backend);
        record.runtime.clone_from(&self.runtime);
        record
    }
}

/// Everything that the doors lead to.
#[derive(Debug)]
pub struct House {
    pub(crate) base: Base,
    pub(crate) journal: Journal,
    pub(crate) keys: Keys,
    pub(crate) secrets: Secrets,
    pub(crate) volumes: Volumes,
    pub(crate) templates: Templates,
    pub(crate) builds: Builds,
    /// Steps of builds that need not be done again.
    pub(crate) cache: Cache,
    /// Signs addresses at which files may be put, as long as the server runs.
    seal: String,
    /// The name that user ports are reached by.
    pub(crate) domain: Option<String>,
    tenants: Mutex<BTreeMap<String, Arc<Tenant>>>,
    /// Rooms that were let go and may still be in the journal.
    leaving: Mutex<BTreeSet<String>>,
    pub(crate) api: Api,
    pub(crate) meters: Meters,
    closing: AtomicBool,
    /// Told when a room that waited was taken, and when the server stops.
    taken: Notify,
}

/// A room that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) facts: Facts,
    pub(crate) timeout: Duration,
    /// What its gateway sets on requests.
    pub(crate) headers: Vec<Header>,
    /// Volumes that it sees.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) origin: Origin,
}

/// What a room begins with.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// What every room of the server begins with.
    Own,
    /// What somebody built.
    Version(Version),
    /// An image, as it is.
    Image(ImageRef),
}

impl House {
    /// A house whose rooms are in `journal`; those that live already are let in.
    pub async fn open(
        base: Base,
        journal: Journal,
        keys: Keys,
        domain: Option<String>,
        settings: Settings,
    ) -> Result<Self, JournalError> {
        let secrets = Secrets::at(&base.state.join("secrets.json"));
        let volumes = Volumes::at(&base.state.join("volumes"));
        let templates = Templates::at(&base.state.join("templates.json"));
        let seal = random::token().map_err(|source| JournalError::System {
            action: "make a seal for uploads",
            source,
        })?;
        let cache = Cache::at(&base.state.join("builds.json"));
        let api = Api::of(settings, &base.state);
        let house = Self {
            base,
            journal,
            keys,
            secrets,
            volumes,
            templates,
            builds: Builds::default(),
            cache,
            seal,
            domain,
            tenants: Mutex::default(),
            leaving: Mutex::default(),
            api,
            meters: Meters::default(),
            closing: AtomicBool::new(false),
            taken: Notify::new(),
        };
        for listed in house.journal.list()? {
            let record = &listed.record;
            if listed.life != Life::Alive {
                house.forget_guests(record);
                continue;
            }
            if workshop::is_workshop(record) {
                // Whoever built in it was killed.
                let client = Client::new(house.journal.socket(&record.id));
                house.close_workshop(&record.id, &client).await;
            }
            house.adopt(record).await;
        }
        house.sweep_headers();
        house.forget_keepers();
        // What a server that was killed had copied of disks, and nobody needs.
        if let Err(error) = house.journal.sweep_layers() {
            tracing::warn!(%error, "copies of disks that nobody needs are left");
        }
        Ok(house)
    }

    async fn adopt(&self, record: &Record) {
        let Some(facts) = record.labels.get(LABEL) else { return };
        let Ok(facts) = serde_json::from_str::<Facts>(facts) else { return };
        let client = Client::new(self.journal.socket(&record.id));
        let Ok(info) = client.inspect().await else { return };
        let left = info.left_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let end = SystemTime::now() + left.unwrap_or_default();
        let mut tenant = Tenant::new(&record.id, client, facts, end);
        tenant.paused = AtomicBool::new(info.paused);
        tenant.interpreter = Interpreter::adopted();
        locked(&self.tenants).insert(record.id.clone(), Arc::new(tenant));
    }

    /// Makes a room.
    pub(crate) async fn make(&self, wanted: Wanted) -> Result<Arc<Tenant>, LaunchError> {
        let id = match self.ready(&wanted).await? {
            Some(id) => id,
            None => self.build(&wanted).await?,
        };
        let client = Client::new(self.journal.socket(&id));
        let end = SystemTime::now() + wanted.timeout;
        let tenant = Arc::new(Tenant::new(&id, client, wanted.facts, end));
        if tenant.facts.template == INTERPRETER {
            let tenant = Arc::clone(&tenant);
            tokio::spawn(async move { tenant.interpreter.warm(&tenant).await });
        }
        match &wanted.origin {
            Origin::Version(version) => tenant.start(version).await,
            Origin::Own | Origin::Image(_) => {}
        }
        locked(&self.tenants).insert(id, Arc::clone(&tenant));
        Ok(tenant)
    }

    /// A room that waits and can become what is `wanted`; its id.
    async fn ready(&self, wanted: &Wanted) -> Result<Option<String>, LaunchError> {
        // Headers that only one room sets, its volumes and its disk are laid before it is made.
        let plain = match wanted.origin {
            Origin::Own => wanted.headers.is_empty() && wanted.mounts.is_empty(),
            Origin::Version(_) | Origin::Image(_) => false,
        };
        if !plain {
            return Ok(None);
        }
        // What cannot be written down is told before a room is taken for it.
        let record = self.record("", wanted)?;
        self.take(|id| self.record(id, wanted).unwrap_or_else(|_| record.clone())).await
    }

    /// Builds a room for somebody who wants one; its id.
    async fn build(&self, wanted: &Wanted) -> Result<String, LaunchError> {
        let id = fresh_id()?;
        if let Err(error) = self.build_as(&id, wanted).await {
            self.forget_headers(&id);
            return Err(error);
        }
        Ok(id)
    }

    /// Makes the room `id`; if that fails, headers may be left.
    async fn build_as(&self, id: &str, wanted: &Wanted) -> Result<(), LaunchError> {
        let mut record = self.record(id, wanted)?;
        match &wanted.origin {
            Origin::Own => {}
            Origin::Version(version) => self.begin_with(version, &mut record)?,
            Origin::Image(image) => record.spec.root = Root::Image(image.clone()),
        }
        let laid = self.lay_headers(id, &wanted.headers).map_err(LaunchError::System)?;
        record.spec.egress.secrets.extend(laid);
        record.spec.mounts.extend(wanted.mounts.iter().cloned());
        self.launch(&record).await
    }

    /// Makes the room of `record`.
    pub(crate) async fn launch(&self, record: &Record) -> Result<(), LaunchError> {
        launch(&self.base.program, record, &self.base.admission).await
    }

    fn record(&self, id: &str, wanted: &Wanted) -> Result<Record, LaunchError> {
        let mut record = self.base.record(id, self.base.spec.clone());
        record.quota.clone_from(&self.base.quota);
        let applied = wanted.facts.network.apply(&mut record.spec);
        applied.map_err(|error| LaunchError::System(io::Error::other(error)))?;
        record.lifetime = wanted.facts.lifetime(wanted.timeout);
        let facts = serde_json::to_string(&wanted.facts);
        let facts = facts.map_err(|error| LaunchError::System(io::Error::other(error)))?;
        record.labels.insert(LABEL.to_owned(), facts);
        let own = [
            ("E2B_SANDBOX", "true"),
            ("E2B_SANDBOX_ID", id),
            ("E2B_TEMPLATE_ID", wanted.facts.template.as_str()),
        ];
        let asked = wanted.facts.env.iter().map(|(name, it)| (name.as_str(), it.as_str()));
        record.spec.env.extend(asked.chain(own).map(|(name, it)| (name.into(), it.into())));
        Ok(record)
    }

    /// The room called `id`, if it lives.
    pub(crate) fn tenant(&self, id: &str) -> Option<Arc<Tenant>> {
        locked(&self.tenants).get(id).cloned()
    }

    /// All rooms that live, the oldest first. Those that have ended meanwhile are let go.
    pub(crate) fn tenants(&self) -> Vec<Arc<Tenant>> {
        let all: Vec<_> = locked(&self.tenants).values().cloned().collect();
        let mut living: Vec<_> = all.into_iter().filter(|it| self.lives(it)).collect();
        living.sort_by(|one, other| {
            (one.facts.started, &one.id).cmp(&(other.facts.started, &other.id))
        });
        living
    }

    /// Whether a room is still there; one that is not is let go.
    pub(crate) fn lives(&self, tenant: &Tenant) -> bool {
        let found = self.journal.room(&tenant.id).ok().flatten();
        let lives = found.is_some_and(|it| it.life == Life::Alive)
            && self.journal.socket(&tenant.id).exists();
        if !lives {
            self.let_go(tenant);
        }
        lives
    }

    /// Ends a room; says whether it was there.
    pub(crate) async fn end(&self, id: &str) -> bool {
        let Some(tenant) = self.tenant(id) else { return false };
        // First nobody finds it any more: a client whose stream is cut asks at once why.
        self.let_go(&tenant);
        let ended = tenant.client.end(Duration::ZERO).await.is_ok();
        if let Err(error) = self.journal.forget(id) {
            tracing::warn!(%error, "the record of a room stays");
        }
        ended
    }

    /// Lets the guests of a room go that was ended by another door.
    pub(crate) fn depart(&self, id: &str) {
        match self.tenant(id) {
            Some(tenant) => self.let_go(&tenant),
            None => self.forget_headers(id),
        }
    }

    /// Forgets the rooms of guests whose time was over: nobody asks how they ended. Only those are
    /// looked at that should have ended.
    pub(crate) fn sweep(&self) {
        let now = SystemTime::now();
        let all: Vec<_> = locked(&self.tenants).values().cloned().collect();
        let over = |it: &&Arc<Tenant>| !it.facts.auto_pause && it.ends_at() < now;
        for tenant in all.iter().filter(over) {
            self.lives(tenant);
        }
        let leaving = locked(&self.leaving).clone();
        for id in leaving {
            match self.journal.room(&id) {
                Ok(Some(listed)) if listed.life == Life::Alive => continue,
                Ok(Some(listed)) => self.forget_guests(&listed.record),
                Ok(None) | Err(_) => {}
            }
            locked(&self.leaving).remove(&id);
        }
    }

    /// Forgets a room that has ended, if guests were let into it.
    fn forget_guests(&self, record: &Record) {
        if record.labels.contains_key(LABEL)
            && let Err(error) = self.journal.forget(&record.id)
        {
            tracing::warn!(%error, "the record of a room stays");
        }
    }

    /// A room was frozen, or goes on, by another door.
    pub(crate) fn note_pause(&self, id: &str, frozen: Frozen) {
        if let Some(tenant) = self.tenant(id) {
            tenant.paused.store(frozen == Frozen::Yes, Ordering::Relaxed);
        }
    }

    /// No more is to be begun here.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether the server is stopping.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn let_go(&self, tenant: &Tenant) {
        self.forget_headers(&tenant.id);
        locked(&self.tenants).remove(&tenant.id);
        locked(&self.leaving).insert(tenant.id.clone());
        tenant.cut();
    }

    /// Has the gateway of a room change its rules; nothing where the room has none.
    pub(crate) async fn tell_gateway(&self, id: &str, ask: Ask) -> io::Result<Option<Reply>> {
        let socket = way_out::socket_of(&self.base.gateways, id);
        if !socket.exists() {
            return Ok(None);
        }
        let told = tokio::task::spawn_blocking(move || way_out::ask(&socket, &ask));
        told.await.map_err(io::Error::other)?.map(Some)
    }

    /// What every room may reach.
    pub(crate) fn egress(&self) -> &Egress {
        &self.base.spec.egress
    }

    /// Whether a room may reach anybody if its maker does not say.
    pub(crate) fn has_network(&self) -> bool {
        self.base.spec.network != Network::None
    }

    /// Ceilings of every room: processors and memory.
    pub(crate) fn size(&self) -> (u64, u64, u64) {
        let limits = self.base.spec.limits.or(self.base.policy.defaults);
        let mebibytes = |it: Option<bulkhead_spec::Bytes>| it.map_or(0, |it| it.0 >> 20);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = u64::try_from(processors).unwrap_or(1);
        (processors, mebibytes(limits.memory), mebibytes(limits.disk))
    }
}

fn fresh_id() -> Result<String, LaunchError> {
    Ok(format!("i{}", random::word(20).map_err(LaunchError::System)?))
}
