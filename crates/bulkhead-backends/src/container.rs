//! Sandboxes that a container daemon builds: Docker and Podman, one implementation.
//!
//! [`detect`] says where a daemon may be, [`probe`] asks it what it can do, and [`findings`] says
//! which promises follow. For a plan, [`find`] looks at what it touches, [`lower`] turns both into
//! the body of one container, [`create`] has the daemon make it with our guest as its first
//! process, and [`sandbox`] is the room that results. Programs are started by the guest, over the
//! container's own streams, never by the daemon.
//!
//! Invariant: what a daemon is asked to make is on record before it is asked, and whatever fails
//! after that takes back what was made.

mod attached;
mod client;
mod copier;
mod create;
pub mod detect;
mod entry;
mod find;
mod findings;
mod gate;
mod image;
mod journal;
mod libpod;
mod lower;
mod made;
mod names;
mod paths;
mod plate;
mod podman;
pub mod probe;
mod runtime;
mod sandbox;
mod seccomp;
mod stage;
mod who;

use std::path::PathBuf;

use bulkhead_policy::Plan;
use bulkhead_spec::{Caught, ImageFacts, ImageRef};

pub use detect::{Address, Candidate, Product, Surroundings, candidates};
pub use findings::findings;
pub use gate::{Caution, cautions};
pub use probe::{Cgroup, Facts, Held, Identity, Machine, Unavailable, find, probe};
pub use runtime::{Kernel, NoRuntime, Runtime};

use self::{
    attached::Attached,
    client::Daemon,
    journal::{Journal, Record},
    paths::Paths,
};
use crate::{Backend, BackendError, Finding, Places, Sandbox, props, turn};

/// Builds sandboxes through a container daemon.
#[derive(Debug)]
pub struct Container {
    daemon: Daemon,
    findings: Vec<Finding>,
    /// The runtime that was asked for, if any was.
    runtime: Option<String>,
    /// Whose kernel serves its programs.
    kernel: Kernel,
    /// What leads to the gateway.
    caught: Caught,
    journal: Journal,
    /// By which our containers are known among those of others.
    instance: String,
    /// What every container is shown of ours.
    props: PathBuf,
    /// Where the daemon sees the files of this host.
    paths: Paths,
    /// What must be found again.
    places: Places,
}

impl Container {
    /// A backend for the daemon that `facts` describe, with its runtime `runtime` or, if none is
    /// named, its own choice.
    pub fn new(
        facts: Facts,
        runtime: Option<&str>,
        places: Places,
    ) -> Result<Self, BackendError> {
        let chosen = facts.runtime(runtime).map_err(|error| BackendError::Build {
            action: "find the runtime".to_owned(),
            hint: Some(error.hint()),
            source: std::io::Error::other(error.to_string()),
        })?;
        let failed = |source| BackendError::System { action: "keep a journal", source };
        let journal = Journal::new(&places.state);
        Ok(Self {
            findings: findings(&facts, &chosen),
            runtime: runtime.map(ToOwned::to_owned),
            kernel: chosen.kernel,
            caught: entry::decide(create::caller(), &facts, chosen.kernel),
            instance: journal.instance().map_err(failed)?,
            props: props::lay(&places.state).map_err(|source| BackendError::System {
                action: "lay the guest out",
                source,
            })?,
            paths: find::paths_of(facts.machine),
            daemon: Daemon::connect(facts)?,
            journal,
            places,
        })
    }

    /// Where what was read out of images is kept.
    fn images(&self) -> PathBuf {
        self.places.state.join("image-users")
    }

    /// Removes a container of ours that nobody watches over, and what was mounted for it.
    async fn remove(
        &self,
        entry: &journal::Entry,
        record: Record,
    ) -> Result<Option<String>, BackendError> {
        let name = create::name(&entry.id);
        let ours = self.is_ours(&name).await?;
        if ours {
            self.daemon.remove(&name).await?;
        }
        let failed = |source| BackendError::System { action: "sweep", source };
        if let Some(stage) = &entry.stage {
            stage::clear(stage).map_err(failed)?;
        }
        if let Some(plate) = &entry.plate {
            plate::clear(plate).map_err(failed)?;
        }
        record.close().map_err(failed)?;
        Ok(ours.then(|| format!("container of {}", entry.id)))
    }

    /// Whether the container `name` is there and bears our label.
    async fn is_ours(&self, name: &str) -> Result<bool, BackendError> {
        match self.daemon.docker.inspect_container(name, None).await {
            Ok(found) => {
                let labels = found.config.and_then(|it| it.labels).unwrap_or_default();
                Ok(labels.get(lower::INSTANCE) == Some(&self.instance))
            }
            Err(error) if client::status(&error) == Some(404) => Ok(false),
            Err(error) => Err(self.daemon.failed("look for a container")(error)),
        }
    }
}

#[async_trait::async_trait]
impl Backend for Container {
    fn name(&self) -> &'static str {
        self.daemon.name()
    }

    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn catches(&self) -> Caught {
        self.caught
    }

    fn keeps(&self) -> Option<Finding> {
        self.kept()
    }

    async fn furnish(&self, image: &ImageRef) -> Result<ImageFacts, BackendError> {
        image::furnish(&self.daemon, image).await
    }

    async fn create(&self, id: &str, plan: &Plan) -> Result<Box<dyn Sandbox>, BackendError> {
        Ok(Box::new(self.build(id, plan).await?))
    }

    async fn sweep(&self) -> Result<Vec<String>, BackendError> {
        let failed = |source| BackendError::System { action: "sweep", source };
        let Some(turn) = turn::take(&self.places.runtime).map_err(failed)? else {
            return Ok(Vec::new());
        };
        let here = self.daemon.facts.address.to_string();
        let mut swept =
            crate::workspace::stand_in::sweep(&self.places.state).map_err(failed)?;
        for (entry, record) in self.journal.abandoned().map_err(failed)? {
            // What another daemon made, only that one can tell.
            if entry.daemon == here {
                swept.extend(self.remove(&entry, record).await?);
            }
        }
        drop(turn);
        Ok(swept)
    }

    fn describe(&self, plan: &Plan) -> Result<Vec<String>, BackendError> {
        self.blueprint(plan)
    }
}
