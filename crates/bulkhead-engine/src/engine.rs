//! Runs one program in one sandbox.

use std::{sync::Arc, time::Instant};

use bulkhead_backends::{Backend, Remains, Sandbox, together::AllReady};
use bulkhead_policy::{Disk, ExecPlan, Guide, Plan, Policy, Settled};
use bulkhead_spec::{
    EgressUsage, Event, Exec, Guarantees, ImageFacts, Outcome, Root, Spec, escape_bytes,
};

use crate::{
    Console, Ledger, Outside, RunError,
    place::place,
    supervise::{Ended, Extent, Running, is_limit, supervise},
    way_out::WayOut,
};

/// Everything needed to run programs; built once at start, shared by every front door.
pub struct Engine {
    /// What sandboxes may ask for.
    pub policy: Policy,
    /// Where they can be built, the preferred first.
    pub backends: Vec<Box<dyn Backend>>,
    /// Where it is written down.
    pub ledger: Arc<dyn Ledger>,
    /// What the host adds to the way out of sandboxes.
    pub outside: Outside,
}

/// A run that was decided and has its place, and is not begun.
pub struct Placed<'a> {
    /// The name of the sandbox to be.
    pub id: String,
    /// What the sandbox gets.
    pub plan: Plan,
    /// What runs in it.
    pub exec: ExecPlan,
    /// Who builds it.
    pub backend: &'a dyn Backend,
    /// The promises that hold.
    pub upheld: Guarantees,
    /// Promises that defaults asked for and that this backend cannot keep here.
    pub missing: Guarantees,
    /// What was decided, to be written down before anything runs.
    notes: Vec<Event>,
}

/// A sandbox that stands, and its way out.
pub(crate) struct Built {
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) way_out: Option<WayOut>,
    /// What its programs must know.
    pub(crate) guide: Option<Guide>,
}

/// What a run waits for in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// That nothing is left of the sandbox.
    Removed,
    /// That nothing happens in it.
    Deserted,
}

/// A room that was decided and has its place.
pub(crate) struct Sited<'a> {
    pub(crate) plan: Plan,
    pub(crate) backend: &'a dyn Backend,
    pub(crate) upheld: Guarantees,
    pub(crate) missing: Guarantees,
}

impl Engine {
    /// Decides what `spec` and `exec` get and who builds it. Builds nothing; an image that is the
    /// root is fetched, because it has a say in what runs.
    pub async fn place(
        &self,
        id: &str,
        spec: Spec,
        exec: Exec,
    ) -> Result<Placed<'_>, RunError> {
        let plan = bulkhead_policy::resolve(spec, &self.policy)?;
        let Sited { plan, backend, upheld, missing } =
            self.site(&plan, &Disk::default()).await?;
        let exec = plan.admit(exec)?;
        let (id, notes) = (id.to_owned(), Vec::new());
        Ok(Placed { id, plan, exec, backend, upheld, missing, notes })
    }

    async fn site(&self, plan: &Plan, disk: &Disk) -> Result<Sited<'_>, RunError> {
        let placed = place(plan, &self.backends, disk)?;
        let (backend, Settled { mut plan, missing }, upheld) = placed;
        if let Root::Image(image) = plan.root() {
            let facts = backend.furnish(image).await?;
            plan = plan.furnished(facts)?;
        }
        Ok(Sited { plan, backend, upheld, missing })
    }

    /// Decides what a room of `spec` on `disk` gets and who builds it, on record.
    pub(crate) async fn settle(
        &self,
        id: &str,
        spec: Spec,
        disk: &Disk,
    ) -> Result<Sited<'_>, RunError> {
        let sited = match bulkhead_policy::resolve(spec, &self.policy) {
            Ok(plan) => self.site(&plan, disk).await,
            Err(denial) => Err(denial.into()),
        };
        match sited {
            Ok(sited) => {
                let Sited { plan, backend, missing, .. } = &sited;
                self.note(id, &decision(plan, *backend, missing))?;
                Ok(sited)
            }
            Err(error) => Err(self.note_denial(id, error)?),
        }
    }

    fn note(&self, id: &str, events: &[Event]) -> Result<(), RunError> {
        events.iter().try_for_each(|event| self.ledger.record(id, event))
    }

    fn note_denial(&self, id: &str, error: RunError) -> Result<RunError, RunError> {
        self.ledger.record(id, &Event::Denied { reason: describe(&error) })?;
        Ok(error)
    }

    /// Like [`Engine::place`], with a record of what was asked; what was decided will be on record
    /// before the program runs.
    pub async fn prepare(
        &self,
        id: &str,
        spec: Spec,
        exec: Exec,
    ) -> Result<Placed<'_>, RunError> {
        let argv = exec.argv.iter().map(|word| escape_bytes(word.as_encoded_bytes())).collect();
        let workspace = spec.workspace.as_ref().map(|it| it.dir.to_string());
        self.ledger.record(id, &Event::Asked { argv, workspace })?;
        match self.place(id, spec, exec).await {
            Ok(mut placed) => {
                placed.notes = decision(&placed.plan, placed.backend, &placed.missing);
                Ok(placed)
            }
            Err(error) => Err(self.note_denial(id, error)?),
        }
    }

    /// Builds the sandbox of `plan` and opens its way out, if it has one.
    pub(crate) async fn build(
        &self,
        id: &str,
        plan: &Plan,
        backend: &dyn Backend,
    ) -> Result<Built, RunError> {
        let told = (plan, backend.catches());
        let Some(mut way_out) = WayOut::prepare(id, told, &self.outside, &self.ledger)? else {
            let sandbox = backend.create(id, plan).await?;
            return Ok(Built { sandbox, way_out: None, guide: None });
        };
        let guide = way_out.guide();
        let sandbox = backend.create(id, &plan.clone().guided(&guide)).await?;
        way_out.serve(&*sandbox, plan)?;
        Ok(Built { sandbox, way_out: Some(way_out), guide: Some(guide) })
    }

    /// Builds the sandbox of `placed`, runs its program to the end and removes the sandbox again.
    ///
    /// # Cancellation
    /// Dropping the future ends the program and removes the sandbox.
    pub async fn run(
        &self,
        placed: &Placed<'_>,
        console: Console,
    ) -> Result<Outcome, RunError> {
        let (outcome, _nothing) = self.run_until(placed, console, Until::Removed).await?;
        Ok(outcome)
    }

    /// Like [`Engine::run`], for callers who have better things to do than to wait for the kernel:
    /// when this returns, nothing happens in the sandbox any more, and what is left of it is removed
    /// when they drop it.
    pub async fn run_leaving(
        &self,
        placed: &Placed<'_>,
        console: Console,
    ) -> Result<(Outcome, Remains), RunError> {
        self.run_until(placed, console, Until::Deserted).await
    }

    async fn run_until(
        &self,
        placed: &Placed<'_>,
        console: Console,
        until: Until,
    ) -> Result<(Outcome, Remains), RunError> {
        let Placed { id, plan, backend, upheld, missing, notes, .. } = placed;
        let started = Instant::now();
        let built = self.build(id, plan, *backend).await;
        // Before the program runs, but while the sandbox is being built: nobody waits for it then.
        self.note(id, notes)?;
        let Built { sandbox, way_out, guide } = built?;
        self.ledger.record(id, &Event::Created)?;
        let ended = self.attend(&*sandbox, placed, guide.as_ref(), console).await;
        // Its thread ends while the sandbox is removed.
        way_out.iter().for_each(WayOut::close);
        let usage = sandbox.usage();
        let mut remains = match until {
            Until::Removed => sandbox.destroy().await.map(|()| Remains::default())?,
            Until::Deserted => sandbox.leave().await?,
        };
        let egress = way_out.map(WayOut::end);
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.ledger.record(id, &Event::Destroyed)?;
                return Err(error);
            }
        };

        let mut usage = usage?;
        usage.wall = started.elapsed();
        let (ending, [stdout, stderr]) = ended.finish().await;
        if is_limit(&ending) {
            self.ledger.record(id, &Event::LimitReached { ending })?;
        }
        self.ledger.record(id, &Event::Ended { ending, usage })?;
        self.ledger.record(id, &Event::Destroyed)?;
        // Last, because it goes faster the further the kernel is with the rest.
        remains.clear_visible();
        let outcome = Outcome {
            ending,
            sandbox: id.clone(),
            backend: backend.name(),
            image: plan.image().cloned(),
            usage,
            denied_hosts: egress.as_ref().map(EgressUsage::denied_hosts).unwrap_or_default(),
            egress,
            upheld: upheld.clone(),
            missing: missing.clone(),
            stdout,
            stderr,
        };
        Ok((outcome, remains))
    }

    /// Starts the program and stays with it until its end.
    async fn attend(
        &self,
        sandbox: &dyn Sandbox,
        Placed { id, plan, exec, .. }: &Placed<'_>,
        guide: Option<&Guide>,
        mut console: Console,
    ) -> Result<Ended, RunError> {
        let guided = guide.map(|guide| exec.clone().guided(guide));
        let exec = guided.as_ref().unwrap_or(exec);
        let asked = console.asked.take();
        // What can be done before the end of the program is done while it starts: then somebody waits.
        let meanwhile = async {
            // Nobody wants to know yet, but whoever counts is found.
            sandbox.usage()?;
            if let Some(asked) = asked {
                // Somebody who does not wait any more need not be told.
                asked.send(()).unwrap_or_default();
            }
            Ok(())
        };
        // The program is asked for first.
        let (process, ()) = tokio::try_join!(sandbox.exec_last(exec), meanwhile)?;
        self.ledger.record(id, &Event::Started)?;
        let running = Running { sandbox, process, plan, exec, extent: Extent::Sandbox };
        let (ends, control) = console.split();
        supervise(running, ends, control).await
    }

    /// Makes and looks at once what the rooms of this process and of its copies can share. Their
    /// disks begin as `disk` does. Much of them is built when all are `created`: when whoever opens them
    /// is ready.
    pub fn expect_many(&self, disk: &Disk, created: AllReady) -> Result<(), RunError> {
        let created = Arc::new(created);
        Ok(self.backends.iter().try_for_each(|it| it.expect_many(disk, &created))?)
    }

    /// Removes what a killed Bulkhead left on this host.
    pub async fn sweep(&self) -> Result<(), RunError> {
        for backend in &self.backends {
            for what in backend.sweep().await? {
                self.ledger.record("", &Event::Swept { what })?;
            }
        }
        Ok(())
    }
}

/// What is on record about a decision.
fn decision(plan: &Plan, backend: &dyn Backend, missing: &Guarantees) -> Vec<Event> {
    let planned = Event::Planned { require: plan.require().clone() };
    let placed = Event::Placed { backend: backend.name(), missing: missing.clone() };
    let furnished = plan.image().map(|ImageFacts { name, digest, .. }| Event::Furnished {
        image: name.clone(),
        digest: *digest,
    });
    [planned, placed].into_iter().chain(furnished).collect()
}

pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
