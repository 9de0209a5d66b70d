//! A sandbox that stays: many programs, one after another or at once.
//!
//! Invariant: a room belongs to the process that made it and ends with it. Who wants one that
//! outlives its maker has a shim hold it (see [`crate::rooms`]).

mod program;
mod revise;
mod ring;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use bulkhead_backends::{BackendError, Process, Sandbox};
use bulkhead_policy::{Disk, ExecPlan, Nameplate, Plan};
use bulkhead_spec::{Bytes, EgressUsage, Event, Exec, Guarantees, Stdin, Usage, escape_bytes};
use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock},
    task::JoinSet,
};

pub use self::{
    program::{Finished, Program},
    ring::{From, Piece, Tail, Which},
};
use self::{
    program::{Hold, IntoRing},
    ring::Ring,
};
use crate::{
    Engine, Ledger, RunError,
    pump::Ends,
    supervise::{Extent, Running, supervise},
    way_out::WayOut,
};

/// How much is kept of what one program says.
const KEPT: usize = 1 << 20;
/// How many programs that have ended are remembered.
const REMEMBERED: usize = 64;
/// How much of a program's input waits for it.
const INPUT: usize = 64 << 10;

type Held = Option<Box<dyn Sandbox>>;

/// A living sandbox.
pub struct Room {
    id: String,
    plan: Mutex<Arc<Plan>>,
    backend: &'static str,
    upheld: Guarantees,
    missing: Guarantees,
    /// Held for reading by whoever uses it; the one who destroys it takes it for good.
    sandbox: Arc<RwLock<Held>>,
    way_out: Mutex<Option<WayOut>>,
    programs: Mutex<BTreeMap<u32, Arc<Program>>>,
    running: Mutex<JoinSet<()>>,
    next: AtomicU32,
    since: Instant,
    ledger: Arc<dyn Ledger>,
}

impl Engine {
    /// Builds the room of `spec`, in which programs can be started until it is destroyed.
    ///
    /// # Cancellation
    /// Dropping the future, or the room, ends every program in it and removes it.
    pub async fn open(&self, id: &str, spec: bulkhead_spec::Spec) -> Result<Room, RunError> {
        self.open_on(id, spec, Disk::default()).await
    }

    /// As [`Engine::open`], on a disk that begins with something or is kept.
    pub async fn open_on(
        &self,
        id: &str,
        spec: bulkhead_spec::Spec,
        disk: Disk,
    ) -> Result<Room, RunError> {
        let workspace = spec.workspace.as_ref().map(|it| it.dir.to_string());
        self.ledger.record(id, &Event::Asked { argv: Vec::new(), workspace })?;
        let mut placed = self.settle(id, spec, &disk).await?;
        placed.plan = placed.plan.on(disk).named(nameplate()?);
        let built = self.build(id, &placed.plan, placed.backend).await?;
        let plan = match &built.guide {
            Some(guide) => placed.plan.guided(guide),
            None => placed.plan,
        };
        self.ledger.record(id, &Event::Created)?;
        Ok(Room {
            id: id.to_owned(),
            plan: Mutex::new(Arc::new(plan)),
            backend: placed.backend.name(),
            upheld: placed.upheld,
            missing: placed.missing,
            sandbox: Arc::new(RwLock::new(Some(built.sandbox))),
            way_out: Mutex::new(built.way_out),
            programs: Mutex::default(),
            running: Mutex::default(),
            next: AtomicU32::new(1),
            since: Instant::now(),
            ledger: Arc::clone(&self.ledger),
        })
    }
}

/// A nameplate that no other room has.
fn nameplate() -> Result<Nameplate, RunError> {
    let mut random = [0; 32];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map(|_| Nameplate::of(random))
        .map_err(|errno| {
            BackendError::System { action: "make a name", source: errno.into() }.into()
        })
}

impl Room {
    /// Its name on this host.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What was decided about it, as of this moment.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&locked(&self.plan))
    }

    /// What built it.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The promises that hold.
    pub fn upheld(&self) -> &Guarantees {
        &self.upheld
    }

    /// Promises of the defaults that do not.
    pub fn missing(&self) -> &Guarantees {
        &self.missing
    }

    /// Starts a program; `tag` is a name that its caller gives it.
    ///
    /// It runs to its end whether anybody looks or not.
    pub async fn exec(
        &self,
        exec: Exec,
        tag: Option<String>,
    ) -> Result<Arc<Program>, RunError> {
        let plan = self.plan();
        let exec = plan.admit(exec)?;
        let argv = exec.argv().iter().map(|it| escape_bytes(it.as_encoded_bytes())).collect();
        self.ledger.record(&self.id, &Event::Asked { argv, workspace: None })?;
        let sandbox = Arc::clone(&self.sandbox).read_owned().await;
        let process = held(&sandbox)?.exec(&exec).await?;
        self.ledger.record(&self.id, &Event::Started)?;

        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let ring = Ring::new(KEPT);
        let (stdin, theirs) = match exec.stdin() {
            Stdin::Piped => Some(tokio::io::duplex(INPUT)).unzip(),
            Stdin::Empty => (None, None),
        };
        let (program, hold) = Program::new((id, process.pid()), tag, &exec, ring, stdin);
        let life = Life {
            program: Arc::clone(&program),
            sandbox,
            plan,
            exec,
            room: self.id.clone(),
            ledger: Arc::clone(&self.ledger),
        };
        self.remember(&program);
        let mut running = locked(&self.running);
        // Those that have ended are let go here, so that a long life does not gather them.
        while running.try_join_next().is_some() {}
        running.spawn(life.live(process, hold, theirs));
        drop(running);
        Ok(program)
    }

    /// The programs of the room, running or ended not long ago.
    pub fn programs(&self) -> Vec<Arc<Program>> {
        locked(&self.programs).values().cloned().collect()
    }

    /// The program that the room calls `id`.
    pub fn program(&self, id: u32) -> Option<Arc<Program>> {
        locked(&self.programs).get(&id).cloned()
    }

    /// What the room has used until now.
    pub async fn usage(&self) -> Result<Usage, RunError> {
        let sandbox = self.sandbox.read().await;
        let mut usage = held(&sandbox)?.usage()?;
        usage.wall = self.since.elapsed();
        Ok(usage)
    }

    /// What has passed through its way out until now, if it has one.
    pub fn egress(&self) -> Option<EgressUsage> {
        locked(&self.way_out).as_ref().map(WayOut::usage)
    }

    /// The sandbox itself, for what only it can do. While it is held, the room cannot end.
    pub async fn sandbox(&self) -> Result<OwnedRwLockReadGuard<Held, dyn Sandbox>, RunError> {
        let guard = Arc::clone(&self.sandbox).read_owned().await;
        OwnedRwLockReadGuard::try_map(guard, Option::as_deref).map_err(|_| RunError::Gone)
    }

    /// Waits until every wall of it stands, or finds out why one does not.
    pub async fn stands(&self) -> Result<(), RunError> {
        Ok(self.sandbox().await?.stands().await?)
    }

    /// Ends every program and removes the room. Whoever comes second finds it gone.
    pub async fn destroy(&self) -> Result<(), RunError> {
        locked(&self.running).abort_all();
        let Some(sandbox) = self.sandbox.write().await.take() else { return Ok(()) };
        sandbox.destroy().await?;
        drop(locked(&self.way_out).take().map(WayOut::end));
        self.ledger.record(&self.id, &Event::Destroyed)
    }

    fn remember(&self, program: &Arc<Program>) {
        let mut programs = locked(&self.programs);
        programs.insert(program.id(), Arc::clone(program));
        let ended = programs.iter().filter(|(_, it)| it.finished().is_some());
        let ended: Vec<u32> = ended.map(|(id, _)| *id).collect();
        let over = ended.len().saturating_sub(REMEMBERED);
        for id in ended.into_iter().take(over) {
            programs.remove(&id);
        }
    }
}

/// One program, from its start to its end.
struct Life {
    program: Arc<Program>,
    sandbox: OwnedRwLockReadGuard<Held>,
    plan: Arc<Plan>,
    exec: ExecPlan,
    room: String,
    ledger: Arc<dyn Ledger>,
}

impl Life {
    async fn live(
        self,
        process: Box<dyn Process>,
        hold: Hold,
        stdin: Option<tokio::io::DuplexStream>,
    ) {
        let ending = self.supervised(process, hold.control, stdin).await;
        self.program.ring.close();
        let wall = self.program.since.elapsed();
        if let (Ok(ending), Ok(sandbox)) = (&ending, held(&self.sandbox)) {
            let usage = Usage { wall, ..sandbox.usage().unwrap_or_default() };
            let recorded =
                self.ledger.record(&self.room, &Event::Ended { ending: *ending, usage });
            if let Err(error) = recorded {
                tracing::warn!(%error, "the end of a program is not on record");
            }
        }
        let ending = ending.map_err(|error| error.to_string());
        hold.end.send_replace(Some(Finished { ending, wall }));
    }

    async fn supervised(
        &self,
        process: Box<dyn Process>,
        control: tokio::sync::mpsc::UnboundedReceiver<crate::Control>,
        stdin: Option<tokio::io::DuplexStream>,
    ) -> Result<bulkhead_spec::Ending, RunError> {
        let sink = |which| {
            let ring = Arc::clone(&self.program.ring);
            Some(Box::new(IntoRing { ring, which }) as Box<dyn crate::pump::Sink>)
        };
        let ends = Ends {
            stdin: stdin.map(|it| Box::new(it) as Box<_>),
            stdout: sink(Which::Stdout),
            stderr: sink(Which::Stderr),
            keep: Bytes(0),
        };
        let running = Running {
            sandbox: held(&self.sandbox)?,
            process,
            plan: &self.plan,
            exec: &self.exec,
            extent: Extent::Program,
        };
        let ended = supervise(running, ends, control).await?;
        let (ending, _) = ended.finish_in_room().await;
        Ok(ending)
    }
}

fn held(sandbox: &Held) -> Result<&dyn Sandbox, RunError> {
    sandbox.as_deref().ok_or(RunError::Gone)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
