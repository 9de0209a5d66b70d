//! The process that holds a room.

mod change;
mod files;
mod serve;
mod still;
mod stop;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bulkhead_backends::{Freezer, Sandbox, crash};
use bulkhead_spec::{Span, Spec};
use tokio::{
    sync::{Notify, RwLock, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub(super) use self::still::copier;
use super::{
    journal::{
        Claim, Journal, JournalError, Keeping, Lifetime, Record, Then, Why, remove_if_there,
    },
    line::{Heard, Listener, Mouth},
};
use crate::{Engine, RunError, engine::describe, room::Room};

/// What a shim says to whoever started it, once.
#[derive(Debug)]
pub enum Ready {
    /// The room is there and can be talked to.
    Yes,
    /// The journal does not take it.
    Journal(JournalError),
    /// It could not be built.
    Room(RunError),
    /// The shim itself could not begin.
    System(io::Error),
}

/// A room and what its shim knows about it.
pub(super) struct Held {
    engine: Arc<Engine>,
    journal: Journal,
    claim: Claim,
    record: Mutex<Record>,
    /// Who changes what the room is does it alone.
    changing: tokio::sync::Mutex<()>,
    pub(super) room: Room,
    lifetime: Mutex<Lifetime>,
    /// When its time began to run.
    since: Mutex<Instant>,
    /// Those who are doing something with the room.
    pub(super) guests: watch::Sender<usize>,
    pub(super) paused: watch::Sender<bool>,
    pub(super) over: watch::Sender<Option<Ending>>,
    changed: Notify,
    /// What is to be parked in the place of this room, until that is begun.
    successor: Mutex<Option<Record>>,
    /// Held for writing while the disk is copied.
    still: RwLock<()>,
}

/// How a room is to end.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) why: Why,
    pub(super) grace: Duration,
}

/// When a room is said to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    /// When all that can be decided was, and the kernel was told what to build.
    Begun,
    /// When it is built.
    Built,
}

/// Makes the room of `record`, holds it, serves its clients, and ends it when it is time.
///
/// `ready` is told once whether the room came to be.
pub async fn hold(
    engine: Arc<Engine>,
    journal: &Journal,
    record: Record,
    ready: impl FnOnce(Ready),
) -> io::Result<()> {
    let claim = match journal.begin(&record) {
        Ok(claim) => claim,
        Err(error) => {
            ready(Ready::Journal(error));
            return Ok(());
        }
    };
    hold_until_its_end((engine, journal), (record, claim), There::Built, ready).await
}

/// As [`hold`], for one of many rooms, which is begun already. `ready` is told before it is built, for the
/// kernel builds all of them when all are begun; one that it cannot build then ends, and says why.
pub async fn hold_one_of_many(
    engine: Arc<Engine>,
    journal: &Journal,
    room: (Record, Claim),
    ready: impl FnOnce(Ready),
) -> io::Result<()> {
    hold_until_its_end((engine, journal), room, There::Begun, ready).await
}

async fn hold_until_its_end(
    (engine, journal): (Arc<Engine>, &Journal),
    (record, claim): (Record, Claim),
    there: There,
    ready: impl FnOnce(Ready),
) -> io::Result<()> {
    let disk = match journal.disk_of(&record) {
        Ok(disk) => disk,
        Err(error) => {
            claim.erase()?;
            ready(Ready::Journal(error));
            return Ok(());
        }
    };
    let opened = async {
        let room = engine.open_on(&record.id, named(&record), disk).await?;
        if there == There::Built {
            room.stands().await?;
        }
        Ok(room)
    };
    let room = match opened.await {
        Ok(room) => room,
        Err(error) => {
            // Whoever asked is told; there is no room that anybody could ask about.
            claim.erase()?;
            ready(Ready::Room(error));
            return Ok(());
        }
    };
    crash::point();
    let listener = match listen(claim.socket()) {
        Ok(listener) => listener,
        Err(error) => {
            room.destroy().await.map_err(io::Error::other)?;
            claim.erase()?;
            ready(Ready::System(error));
            return Ok(());
        }
    };
    if record.keeping == Keeping::Disk {
        journal.mark_used(&record.id)?;
    }
    let home = Home { engine, journal: journal.clone(), claim };
    let held = Arc::new(Held::new(home, record, room));
    crash::point();
    ready(Ready::Yes);
    let mut clients = JoinSet::new();
    let ending = held.live(&listener, &mut clients).await;
    // Whoever asked for the end stays connected, and so knows when it has come.
    let finished = held.finish(ending, listener, &mut clients).await;
    drop(clients);
    finished
}

/// What was asked for; in a private network it has the name that its user calls it.
fn named(record: &Record) -> Spec {
    let mut spec = record.spec.clone();
    if spec.egress.network.is_some() {
        spec.egress.alias.get_or_insert_with(|| record.name.clone());
    }
    spec
}

/// Listens where nobody does any more.
fn listen(path: &Path) -> io::Result<Listener> {
    remove_if_there(path)?;
    Listener::bind(path)
}

/// Where a room is written down, and who made it.
struct Home {
    engine: Arc<Engine>,
    journal: Journal,
    claim: Claim,
}

impl Held {
    fn new(Home { engine, journal, claim }: Home, record: Record, room: Room) -> Self {
        Self {
            engine,
            journal,
            claim,
            lifetime: Mutex::new(record.lifetime),
            record: Mutex::new(record),
            changing: tokio::sync::Mutex::default(),
            room,
            since: Mutex::new(Instant::now()),
            guests: watch::Sender::new(0),
            paused: watch::Sender::new(false),
            over: watch::Sender::new(None),
            changed: Notify::new(),
            successor: Mutex::default(),
            still: RwLock::new(()),
        }
    }

    /// Serves until the room is to end.
    async fn live(self: &Arc<Self>, listener: &Listener, clients: &mut JoinSet<()>) -> Ending {
        let mut over = self.over.subscribe();
        let clock = self.clock();
        let lost = lost(&self.room);
        tokio::pin!(clock, lost);
        loop {
            tokio::select! {
                accepted = listener.accept() => self.welcome(accepted, clients).await,
                Some(_) = clients.join_next() => {}
                why = &mut clock => return Ending { why, grace: Duration::ZERO },
                ending = told(&mut over) => return ending,
                why = &mut lost => return Ending { why, grace: Duration::ZERO },
            }
        }
    }

    /// Serves somebody who came.
    async fn welcome(
        self: &Arc<Self>,
        accepted: io::Result<(Heard, Mouth)>,
        clients: &mut JoinSet<()>,
    ) {
        match accepted {
            Ok((from, to)) => {
                clients.spawn(serve::serve(Arc::clone(self), from, to));
            }
            // Out of descriptors: those that are open must end first.
            Err(error) => {
                tracing::warn!(%error, "could not take a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Returns when the room's time is over, and why. A room that is to be frozen then, is.
    async fn clock(&self) -> Why {
        loop {
            let lifetime = *self.lifetime();
            let expired = deadline(*self.since(), lifetime.ttl);
            let over = tokio::select! {
                () = reached(expired) => Why::Expired,
                () = self.idled(lifetime.idle) => Why::Idle,
                () = self.changed.notified() => continue,
            };
            match lifetime.then {
                Then::Kill => return over,
                Then::Pause => {
                    if let Err(error) = self.pause().await {
                        tracing::warn!(%error, "could not freeze the room, so it ends");
                        return over;
                    }
                    self.changed.notified().await;
                }
            }
        }
    }

    /// Returns when nobody has been here for `idle`.
    async fn idled(&self, idle: Option<Span>) {
        let Some(Span(idle)) = idle else { return std::future::pending().await };
        let mut guests = self.guests.subscribe();
        loop {
            // Someone who is connected, or a program that runs, keeps the room.
            guests.wait_for(|it| *it == 0).await.map(drop).unwrap_or_default();
            let since = Instant::now();
            if self.busy() {
                tokio::time::sleep(idle.min(Duration::from_secs(1))).await;
                continue;
            }
            tokio::select! {
                () = sleep_until(since + idle) => {
                    if !self.busy() {
                        return;
                    }
                }
                _ = guests.changed() => {}
            }
        }
    }

    fn busy(&self) -> bool {
        self.room.programs().iter().any(|it| it.finished().is_none())
    }

    /// Freezes the room.
    pub(super) async fn pause(&self) -> Result<(), RunError> {
        let _moving = self.moving().await;
        crash::point();
        freezer(&*self.room.sandbox().await?)?.freeze().await?;
        crash::point();
        self.paused.send_replace(true);
        Ok(())
    }

    /// Lets a frozen room go on. Its time begins anew.
    pub(super) async fn resume(&self) -> Result<(), RunError> {
        let _moving = self.moving().await;
        freezer(&*self.room.sandbox().await?)?.thaw().await?;
        self.paused.send_replace(false);
        *self.since() = Instant::now();
        self.changed.notify_waiters();
        Ok(())
    }

    /// From now on it lives so long.
    pub(super) fn prolong(&self, lifetime: Lifetime) {
        *self.lifetime() = lifetime;
        *self.since() = Instant::now();
        self.changed.notify_waiters();
    }

    /// What it was told, and how much of it is left.
    pub(super) fn time(&self) -> (Lifetime, Option<Duration>) {
        let lifetime = *self.lifetime();
        let end = deadline(*self.since(), lifetime.ttl);
        (lifetime, end.map(|it| it.saturating_duration_since(Instant::now())))
    }

    async fn finish(
        self: &Arc<Self>,
        ending: Ending,
        listener: Listener,
        clients: &mut JoinSet<()>,
    ) -> io::Result<()> {
        self.begin_another().await;
        let paused = *self.paused.borrow();
        // Frozen programs cannot hear that they should stop. Those that nobody can let go on, because
        // the daemon that froze them is gone, end as they are.
        match if paused { self.resume().await } else { Ok(()) } {
            Ok(()) => self.ask_to_stop(ending.grace, (&listener, clients)).await,
            Err(error) => tracing::warn!(error = describe(&error), "the room stays frozen"),
        }
        drop(listener);
        crash::point();
        let destroyed = self.room.destroy().await;
        crash::point();
        if let Err(error) = &destroyed {
            tracing::warn!(error = describe(error), "the room is not gone entirely");
        }
        if self.is_parked() {
            // Nobody ever had it, so nobody asks what became of it.
            self.claim.erase()?;
            self.journal.tidy_pool()?;
        } else {
            self.claim.end(ending.why)?;
        }
        destroyed.map_err(io::Error::other)
    }

    /// The room as it is written down.
    pub(super) fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lifetime(&self) -> std::sync::MutexGuard<'_, Lifetime> {
        self.lifetime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when the room's first process has gone without being asked to, or never came.
async fn lost(room: &Room) -> Why {
    if let Err(error) = room.stands().await {
        return Why::Unbuilt(describe(&error));
    }
    let guest = room.sandbox().await.ok().and_then(|it| it.guest().cloned());
    match guest {
        Some(guest) => guest.ended().await,
        None => std::future::pending().await,
    }
    Why::Lost
}

/// How a client wants the room to end, when one does.
async fn told(over: &mut watch::Receiver<Option<Ending>>) -> Ending {
    let told = over.wait_for(Option::is_some).await.map(|it| it.clone());
    match told.ok().flatten() {
        Some(ending) => ending,
        None => std::future::pending().await,
    }
}

fn freezer(sandbox: &dyn Sandbox) -> Result<&dyn Freezer, RunError> {
    let why = "nothing on this host freezes the programs of this room".to_owned();
    sandbox.freezer().ok_or(RunError::Room { what: "pause", why })
}

fn deadline(since: Instant, ttl: Option<Span>) -> Option<Instant> {
    since.checked_add(ttl?.0)
}

async fn reached(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
