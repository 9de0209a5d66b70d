//! The rooms that the server lets people into.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bulkhead_engine::rooms::{
    CheckpointError, Client, ClientError, Journal, JournalError, LaunchError, Life, Lifetime,
    Listed, Record, Then, fork, launch,
};
use bulkhead_engine::way_out::{self, Ask, Reply};
use bulkhead_policy::Policy;
use bulkhead_spec::{
    Egress, Exec, ImageRef, ImageSource, Mount, Network, Pull, Root, SecretBinding,
    SecretSource, Span, Spec,
};
use serde::{Deserialize, Serialize};

use crate::{
    api::{Api, Settings, meters::Meters},
    builds::{Builds, Recipe},
    e2b::{
        OWN, envd::Watchers, interpreter::Interpreter, network::Wish, transforms::Header,
        volumes::PLACE,
    },
    keys::Keys,
    private, random,
    secrets::Secrets,
    templates::{Templates, Version},
    volumes::{Volume, Volumes},
    wire::Wire,
};

/// The label under which a room carries what its guests were promised.
const LABEL: &str = "bulkhead.e2b";

/// The template of rooms in which code is run piece by piece.
const INTERPRETER: &str = "code-interpreter-v1";

/// The label of a room in which a template is built.
const BUILD: &str = "bulkhead.build";
/// The label of a room that keeps a volume.
const VOLUME: &str = "bulkhead.volume";

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
    /// Signs addresses at which files may be put, as long as the server runs.
    seal: String,
    /// The name that user ports are reached by.
    pub(crate) domain: Option<String>,
    tenants: Mutex<BTreeMap<String, Arc<Tenant>>>,
    pub(crate) api: Api,
    pub(crate) meters: Meters,
    closing: AtomicBool,
}

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

/// A room that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) facts: Facts,
    pub(crate) timeout: Duration,
    /// What its gateway sets on requests.
    pub(crate) headers: Vec<Header>,
    /// Volumes that it sees.
    pub(crate) mounts: Vec<Mount>,
    /// What it begins with.
    pub(crate) version: Option<Version>,
}

/// A room in which a template is built.
pub(crate) struct Workshop {
    pub(crate) id: String,
    pub(crate) client: Client,
    /// Variables of what it begins with.
    pub(crate) env: BTreeMap<String, String>,
}

/// Why a room was not copied.
#[derive(Debug)]
pub(crate) enum ForkError {
    /// Its disk could not be copied.
    Disk(CheckpointError),
    /// The copies could not be made.
    Rooms(LaunchError),
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
        let tenants = Mutex::new(BTreeMap::new());
        let seal = random::token().map_err(|source| JournalError::System {
            action: "make a seal for uploads",
            source,
        })?;
        let builds = Builds::default();
        let api = Api::of(settings, &base.state);
        let house = Self {
            base,
            journal,
            keys,
            secrets,
            volumes,
            templates,
            builds,
            seal,
            domain,
            tenants,
            api,
            meters: Meters::default(),
            closing: AtomicBool::new(false),
        };
        for listed in house.journal.living()? {
            let record = &listed.record;
            if record.labels.contains_key(BUILD) {
                // Whoever built in it was killed.
                let client = Client::new(house.journal.socket(&record.id));
                house.close_workshop(&record.id, &client).await;
            }
            house.adopt(record).await;
        }
        house.sweep_headers();
        house.forget_keepers();
        Ok(house)
    }

    async fn adopt(&self, record: &Record) {
        let Some(facts) = record.labels.get(LABEL) else { return };
        let Ok(facts) = serde_json::from_str::<Facts>(facts) else { return };
        let client = Client::new(self.journal.socket(&record.id));
        let Ok(info) = client.inspect().await else { return };
        let left = info.left_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let end = SystemTime::now() + left.unwrap_or_default();
        let tenant = Tenant {
            id: record.id.clone(),
            client,
            network: Mutex::new(facts.network.clone()),
            facts,
            end: Mutex::new(end),
            paused: AtomicBool::new(info.paused),
            wires: Mutex::default(),
            next: AtomicU64::new(0),
            watchers: Watchers::default(),
            interpreter: Interpreter::adopted(),
        };
        locked(&self.tenants).insert(record.id.clone(), Arc::new(tenant));
    }

    /// Makes a room.
    pub(crate) async fn make(&self, wanted: Wanted) -> Result<Arc<Tenant>, LaunchError> {
        let id = format!("i{}", random::word(20).map_err(LaunchError::System)?);
        let mut record = self.record(&id, &wanted)?;
        let laid = self.lay_headers(&id, &wanted.headers).map_err(LaunchError::System)?;
        record.spec.egress.secrets.extend(laid);
        record.spec.mounts.extend(wanted.mounts.iter().cloned());
        if let Some(version) = &wanted.version {
            self.begin_with(version, &mut record)?;
        }
        if let Err(error) = launch(&self.base.program, &record).await {
            self.forget_headers(&id);
            return Err(error);
        }
        let tenant = Arc::new(Tenant {
            id: id.clone(),
            client: Client::new(self.journal.socket(&id)),
            network: Mutex::new(wanted.facts.network.clone()),
            facts: wanted.facts,
            end: Mutex::new(SystemTime::now() + wanted.timeout),
            paused: AtomicBool::new(false),
            wires: Mutex::default(),
            next: AtomicU64::new(0),
            watchers: Watchers::default(),
            interpreter: Interpreter::default(),
        });
        if tenant.facts.template == INTERPRETER {
            let tenant = Arc::clone(&tenant);
            tokio::spawn(async move { tenant.interpreter.warm(&tenant).await });
        }
        if let Some(version) = &wanted.version {
            tenant.start(version).await;
        }
        locked(&self.tenants).insert(id, Arc::clone(&tenant));
        Ok(tenant)
    }

    /// Lets the room of `record` begin with `version`.
    fn begin_with(&self, version: &Version, record: &mut Record) -> Result<(), LaunchError> {
        let found = self.journal.find_checkpoint(&version.checkpoint);
        let found = found.map_err(|error| LaunchError::System(io::Error::other(error)))?;
        record.layers = found.layers;
        record.spec.root = found.spec.root;
        for (name, value) in &version.env {
            record.spec.env.entry(name.into()).or_insert_with(|| value.into());
        }
        Ok(())
    }

    /// Takes a checkpoint of a room, and returns its name.
    pub(crate) async fn checkpoint(&self, id: &str) -> Result<String, CheckpointError> {
        let name = random::word(20).map(|it| format!("e2b-{it}"));
        let name = name.map_err(|source| CheckpointError::System {
            action: "find a name for the checkpoint",
            source,
        })?;
        let room = self.journal.find(id)?;
        Ok(self.journal.checkpoint(&room, Some(&name)).await?.name)
    }

    /// A room in which `recipe` is built.
    pub(crate) async fn workshop(&self, recipe: &Recipe) -> Result<Workshop, String> {
        let id = format!("b{}", random::word(20).map_err(|error| error.to_string())?);
        let Base { spec, policy, backend, runtime, .. } = self.base.clone();
        let mut record = Record::new(id.clone(), id.clone(), spec, policy);
        (record.backend, record.runtime) = (backend, runtime);
        record.labels.insert(BUILD.to_owned(), String::new());
        let mut env = BTreeMap::new();
        if let Some(image) = &recipe.from_image {
            // The names by which clients mean what every server has.
            if !matches!(image.as_str(), "e2bdev/base" | "e2bdev/base:latest" | "base") {
                // A client names no file of this host.
                let reference = image.parse().map_err(|error| format!("fromImage: {error}"))?;
                let source = ImageSource::Registry(reference);
                record.spec.root = Root::Image(ImageRef { source, pull: Pull::default() });
            }
        } else if let Some(template) = &recipe.from_template
            && !OWN.contains(&template.as_str())
        {
            let found = self.templates.version(template).map_err(|error| error.to_string())?;
            let found = found.ok_or_else(|| format!("template '{template}' not found"))?;
            self.begin_with(&found, &mut record).map_err(|error| error.to_string())?;
            env = found.env;
        }
        launch(&self.base.program, &record).await.map_err(|error| error.to_string())?;
        Ok(Workshop { client: Client::new(self.journal.socket(&id)), id, env })
    }

    /// Ends a room in which something was built.
    pub(crate) async fn close_workshop(&self, id: &str, client: &Client) {
        let ended = client.end(Duration::ZERO).await.map_err(io::Error::other);
        let gone = ended.and_then(|()| self.journal.forget(id).map_err(io::Error::other));
        if let Err(error) = gone {
            tracing::warn!(%error, id, "a room in which a template was built is left");
        }
    }

    /// Where the archive of that hash is, if it is one.
    pub(crate) fn archive(&self, hash: &str) -> Option<PathBuf> {
        let fine = hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
        fine.then(|| self.base.state.join("files").join(hash.to_ascii_lowercase()))
    }

    /// What must be in an address at which the archive of that hash may be put.
    pub(crate) fn upload_token(&self, hash: &str) -> String {
        crate::keys::hash(&format!("{}:{hash}", self.seal))
    }

    /// Removes checkpoints that nobody names.
    pub(crate) fn forget_checkpoints(&self, names: &[String]) {
        for name in names {
            if let Err(error) = self.journal.remove_checkpoint(name) {
                tracing::warn!(%error, "a checkpoint that nobody names stays");
            }
        }
    }

    /// Makes a copy of a room for each of `copies`, which say what its guests are promised.
    pub(crate) async fn fork(
        &self,
        origin: &Tenant,
        copies: &[Facts],
        timeout: Duration,
    ) -> Result<Vec<Arc<Tenant>>, ForkError> {
        let listed = self.journal.find(&origin.id);
        let listed = listed.map_err(|error| ForkError::Disk(error.into()))?;
        let snapshot = self.journal.snapshot_for_fork(&listed).await;
        let snapshot = snapshot.map_err(ForkError::Disk)?;
        let system = |error| ForkError::Rooms(LaunchError::System(error));
        let mut records = Vec::new();
        for facts in copies {
            let id = format!("i{}", random::word(20).map_err(system)?);
            let mut record = listed.record.forked(id.clone(), id.clone(), &snapshot);
            let text = serde_json::to_string(facts).map_err(|it| system(it.into()))?;
            record.labels.insert(LABEL.to_owned(), text);
            record.lifetime = lifetime(facts, timeout);
            record.spec.env.insert("E2B_SANDBOX_ID".into(), id.into());
            records.push(record);
        }
        let made = fork(&self.base.program, &self.journal, &records).await;
        made.map_err(ForkError::Rooms)?;
        for record in &records {
            self.adopt(record).await;
        }
        Ok(records.iter().filter_map(|it| self.tenant(&it.id)).collect())
    }

    /// Makes the room of `record`.
    pub(crate) async fn launch(&self, record: &Record) -> Result<(), LaunchError> {
        launch(&self.base.program, record).await
    }

    fn record(&self, id: &str, wanted: &Wanted) -> Result<Record, LaunchError> {
        let Base { spec, policy, backend, runtime, .. } = self.base.clone();
        let mut record = Record::new(id.to_owned(), id.to_owned(), spec, policy);
        record.backend = backend;
        record.runtime = runtime;
        let applied = wanted.facts.network.apply(&mut record.spec);
        applied.map_err(|error| LaunchError::System(io::Error::other(error)))?;
        record.lifetime = lifetime(&wanted.facts, wanted.timeout);
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

    /// A small room that sees a volume and nothing else.
    pub(crate) async fn keeper(&self, volume: &Volume) -> Result<Client, LaunchError> {
        let start = async || {
            self.forget_keepers();
            let id = format!("k{}", random::word(20).map_err(LaunchError::System)?);
            let Base { policy, backend, runtime, .. } = self.base.clone();
            let mount = self.volumes.mount(volume, PLACE).map_err(LaunchError::System)?;
            let spec = Spec { mounts: vec![mount], ..Spec::default() };
            let mut record = Record::new(id.clone(), id.clone(), spec, policy);
            (record.backend, record.runtime) = (backend, runtime);
            let idle = Some(Span(Duration::from_mins(1)));
            record.lifetime = Lifetime { ttl: None, idle, then: Then::Kill };
            record.labels.insert(VOLUME.to_owned(), volume.id.clone());
            launch(&self.base.program, &record).await?;
            Ok(Client::new(self.journal.socket(&id)))
        };
        self.volumes.keeper(volume, start).await
    }

    /// Forgets the keepers that have ended: nobody asks how.
    fn forget_keepers(&self) {
        let ended =
            |it: &Listed| it.life != Life::Alive && it.record.labels.contains_key(VOLUME);
        for listed in self.journal.list().unwrap_or_default().iter().filter(|it| ended(it)) {
            if let Err(error) = self.journal.forget(&listed.record.id) {
                tracing::warn!(%error, "the record of a keeper stays");
            }
        }
    }

    /// Writes the values of headers where only the gateway of the room reads them.
    fn lay_headers(&self, id: &str, headers: &[Header]) -> io::Result<Vec<SecretBinding>> {
        let dir = self.headers_of(id);
        let lay = |(at, header): (usize, &Header)| {
            let file = dir.join(at.to_string());
            private::write(&file, header.value.expose().as_bytes())?;
            Ok(SecretBinding {
                name: format!("HEADER_{at}"),
                source: SecretSource::File(file),
                hosts: vec![header.host.clone()],
                header: Some(header.set.clone()),
            })
        };
        headers.iter().enumerate().map(lay).collect()
    }

    fn headers_of(&self, id: &str) -> PathBuf {
        self.base.state.join("headers").join(id)
    }

    fn forget_headers(&self, id: &str) {
        // Most rooms have none.
        std::fs::remove_dir_all(self.headers_of(id)).unwrap_or_default();
    }

    /// Forgets the headers of rooms that ended while nobody looked.
    fn sweep_headers(&self) {
        let all = std::fs::read_dir(self.base.state.join("headers")).into_iter().flatten();
        for entry in all.flatten() {
            if let Some(id) = entry.file_name().to_str().filter(|it| self.tenant(it).is_none())
            {
                self.forget_headers(id);
            }
        }
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
        let socket = self.journal.socket(&tenant.id);
        let found = self.journal.find(&tenant.id);
        let lives = socket.exists() && found.is_ok_and(|it| it.life == Life::Alive);
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
        if let Some(tenant) = self.tenant(id) {
            self.let_go(&tenant);
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

impl Facts {
    /// Seconds since 1970, with their fraction.
    pub(crate) fn started_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.started)
    }
}

impl Tenant {
    /// Starts what every room of `version` runs.
    async fn start(&self, version: &Version) {
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
        self.client.live(lifetime(&self.facts, timeout)).await?;
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

    fn cut(&self) {
        for wire in std::mem::take(&mut *locked(&self.wires)).into_values() {
            wire.cut();
        }
    }
}

fn lifetime(facts: &Facts, timeout: Duration) -> Lifetime {
    let then = if facts.auto_pause { Then::Pause } else { Then::Kill };
    Lifetime { ttl: Some(Span(timeout)), idle: None, then }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
