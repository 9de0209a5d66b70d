//! Linux namespaces, without a daemon and without root: the embedded default.
//!
//! [`survey`] looks at what a plan touches, [`lower`] turns both into steps, [`create`] has a child
//! apply them and become the guest, and [`sandbox`] is the room that results.
//!
//! Invariant: there is no half sandbox. A step that the kernel refuses ends the child, and the
//! guards take back whatever the parent had prepared.

mod birth;
mod common;
mod copier;
mod create;
mod doors;
mod embryo;
mod findings;
mod frame;
mod image;
mod lower;
mod process;
mod program;
mod root;
mod sandbox;
mod shape;
mod survey;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bulkhead_image::Images;
use bulkhead_linux::{
    birth::By,
    cgroup::{Cgroups, Delegation},
    midwife::Midwife,
    together::AllReady,
};
use bulkhead_policy::{Disk, Plan};
use bulkhead_spec::{ImageFacts, ImageRef};

use self::{
    common::Common,
    embryo::{Embryo, called},
    findings::{Host, Namespaces},
    frame::Frame,
    shape::Shape,
};
use crate::{Backend, BackendError, Finding, Sandbox, props, turn, workspace::stand_in};

/// Builds sandboxes from the kernel's own parts.
#[derive(Debug)]
pub struct Native {
    /// Where stand-ins are recorded.
    state: PathBuf,
    /// Where user ids are claimed.
    runtime: PathBuf,
    cgroups: Cgroups,
    /// Looked at when somebody asks, which is after a sandbox was begun.
    host: OnceLock<Host>,
    /// Why the service manager gave us no cgroup.
    refused: Option<String>,
    /// Whether this process has moved to another cgroup to find that out.
    moved: bool,
    /// The next sandbox, if it was begun.
    ahead: Mutex<Option<Embryo>>,
    /// What every sandbox has, if there will be many.
    common: OnceLock<Common>,
    /// What was to be shown in a sandbox and had to be made.
    unlaid: Mutex<Option<Frame>>,
    /// Where roots come from that are images.
    images: Option<Images>,
}

/// A sandbox of which nothing is known yet but that it is most likely like most. Dropping it leaves
/// nothing behind.
#[derive(Debug)]
pub struct Beginning(Midwife);

impl Beginning {
    /// Has the kernel begin with what takes it longest.
    pub fn now() -> io::Result<Self> {
        Midwife::call(Shape::USUAL.network).map(Self)
    }
}

/// Where a backend keeps what it must find again.
#[derive(Clone, Debug)]
pub struct Places {
    /// Survives a reboot.
    pub state: PathBuf,
    /// Does not; private to this user.
    pub runtime: PathBuf,
    /// The session bus of this user, if there is one.
    pub bus: Option<PathBuf>,
}

impl Native {
    /// Finds out what this host allows. Where limits are to be had by asking the service manager
    /// of this user, it is asked, and this process moves to a cgroup of its own.
    pub fn probe(places: Places) -> Self {
        let probed = Cgroups::probe();
        let wanted =
            matches!(probed.delegation(), Delegation::AskSystemd | Delegation::StepAside);
        let mut refused = None;
        let cgroups = if wanted {
            probed.clone().acquire(places.bus.as_deref()).unwrap_or_else(|error| {
                refused = Some(error.to_string());
                probed
            })
        } else {
            probed
        };
        let Places { state, runtime, bus: _ } = places;
        let (host, ahead, common) = (OnceLock::new(), Mutex::new(None), OnceLock::new());
        let (moved, images, unlaid) = (wanted, None, Mutex::new(None));
        Self { state, runtime, cgroups, host, refused, moved, ahead, common, unlaid, images }
    }

    /// Goes on with a sandbox before anybody has decided about its plan, for a caller who will most likely
    /// ask for one under this name. One that is not asked for until the next sweep, or has another
    /// shape than most, is thrown away.
    ///
    /// Whatever goes wrong here goes wrong again when the sandbox is created, and is told then.
    pub fn begin(&self, id: &str, beginning: Beginning) {
        // Where we are now the kernel lets only those bear who are there, too.
        let midwife = Some(beginning.0).filter(|_| !self.moved);
        let by = midwife.map_or_else(|| called(Shape::USUAL), |it| Ok(By::Midwife(it)));
        let conceived = by.and_then(|by| Embryo::conceive(self, id, Shape::USUAL, by));
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = conceived.ok();
    }

    /// What was found out about this host.
    fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let begun = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            let namespaces = if begun { Namespaces::Made } else { Namespaces::Untried };
            Host::probe(self.refused.clone(), namespaces)
        })
    }

    /// Lets images be roots.
    #[must_use]
    pub fn with_images(mut self, images: Images) -> Self {
        self.images = Some(images);
        self
    }
}

#[async_trait::async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn findings(&self) -> Vec<Finding> {
        findings::findings(self.host(), &self.cgroups)
    }

    fn keeps(&self) -> Option<Finding> {
        Some(Finding::kept())
    }

    async fn furnish(&self, image: &ImageRef) -> Result<ImageFacts, BackendError> {
        let images = self.images.as_ref().ok_or(BackendError::Unsupported {
            backend: self.name(),
            what: "a sandbox from an image without a place to keep it",
        })?;
        images.obtain(image).await.map_err(|error| image::refused(image, error))
    }

    async fn create(&self, id: &str, plan: &Plan) -> Result<Box<dyn Sandbox>, BackendError> {
        Ok(Box::new(create::create(self, id, plan)?))
    }

    fn expect_many(&self, disk: &Disk, created: &Arc<AllReady>) -> Result<(), BackendError> {
        self.host();
        let common = Common::find(&self.state, disk, Arc::clone(created))?;
        // Whoever was first has found the same.
        self.common.set(common).unwrap_or_default();
        Ok(())
    }

    async fn sweep(&self) -> Result<Vec<String>, BackendError> {
        // What was begun and nobody has asked for by now was begun in vain.
        drop(self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take());
        let failed = |source| BackendError::System { action: "sweep", source };
        // One at a time, for hundreds may start at once: sweepers look at everything there is, and
        // try the locks of those who are just being born.
        let Some(turn) = turn::take(&self.runtime).map_err(failed)? else {
            return Ok(Vec::new());
        };
        let mut swept: Vec<String> =
            self.cgroups.sweep().into_iter().map(|id| format!("cgroup of {id}")).collect();
        let stand_ins = stand_in::sweep(&self.state).map_err(|source| {
            BackendError::System { action: "remove stand-ins that were left", source }
        })?;
        swept.extend(stand_ins);
        // For those who come next; where it cannot be laid they write their own.
        props::lay(&self.state).ok();
        if let Some(frame) = self.unlaid.lock().unwrap_or_else(PoisonError::into_inner).take() {
            frame.lay().ok();
        }
        if let Some(images) = &self.images {
            swept.extend(images.sweep().map_err(failed)?);
        }
        drop(turn);
        Ok(swept)
    }

    fn describe(&self, plan: &Plan) -> Result<Vec<String>, BackendError> {
        create::describe(self, plan)
    }
}
