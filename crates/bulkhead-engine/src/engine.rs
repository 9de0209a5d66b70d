//! Runs one program in one sandbox.

use std::time::Instant;

use bulkhead_backends::{Backend, Sandbox};
use bulkhead_policy::{ExecPlan, Plan, Policy};
use bulkhead_spec::{Event, Exec, Guarantees, Outcome, Spec, escape_bytes};

use crate::{
    Console, Ledger, RunError,
    place::place,
    supervise::{Ended, is_limit, supervise},
};

/// Everything needed to run programs; built once at start, shared by every front door.
pub struct Engine {
    /// What sandboxes may ask for.
    pub policy: Policy,
    /// Where they can be built, the preferred first.
    pub backends: Vec<Box<dyn Backend>>,
    /// Where it is written down.
    pub ledger: Box<dyn Ledger>,
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
}

impl Engine {
    /// Decides what `spec` and `exec` get and who builds it. Builds nothing.
    pub fn place(&self, id: &str, spec: Spec, exec: Exec) -> Result<Placed<'_>, RunError> {
        let plan = bulkhead_policy::resolve(spec, &self.policy)?;
        let exec = plan.admit(exec)?;
        let (backend, settled, upheld) = place(&plan, &self.backends)?;
        let (plan, missing) = (settled.plan, settled.missing);
        Ok(Placed { id: id.to_owned(), plan, exec, backend, upheld, missing })
    }

    /// Like [`Engine::place`], with a record of what was asked and decided.
    pub fn prepare(&self, id: &str, spec: Spec, exec: Exec) -> Result<Placed<'_>, RunError> {
        let argv = exec.argv.iter().map(|word| escape_bytes(word.as_encoded_bytes())).collect();
        let workspace = spec.workspace.as_ref().map(|it| it.dir.to_string());
        self.ledger.record(id, &Event::Asked { argv, workspace })?;
        match self.place(id, spec, exec) {
            Ok(placed) => {
                let require = placed.plan.require().clone();
                self.ledger.record(id, &Event::Planned { require })?;
                let (backend, missing) = (placed.backend.name(), placed.missing.clone());
                self.ledger.record(id, &Event::Placed { backend, missing })?;
                Ok(placed)
            }
            Err(error) => {
                let reason = describe(&error);
                self.ledger.record(id, &Event::Denied { reason })?;
                Err(error)
            }
        }
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
        let Placed { id, plan, backend, upheld, missing, .. } = placed;
        let started = Instant::now();
        let sandbox = backend.create(id, plan).await?;
        self.ledger.record(id, &Event::Created)?;
        let ended = self.attend(&*sandbox, placed, console).await;
        let usage = sandbox.usage();
        sandbox.destroy().await?;
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
        Ok(Outcome {
            ending,
            sandbox: id.clone(),
            backend: backend.name(),
            usage,
            upheld: upheld.clone(),
            missing: missing.clone(),
            stdout,
            stderr,
        })
    }

    /// Starts the program and stays with it until its end.
    async fn attend(
        &self,
        sandbox: &dyn Sandbox,
        Placed { id, plan, exec, .. }: &Placed<'_>,
        console: Console,
    ) -> Result<Ended, RunError> {
        let process = sandbox.exec_last(exec).await?;
        self.ledger.record(id, &Event::Started)?;
        supervise(sandbox, process, plan, exec, console).await
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

fn describe(error: &RunError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
