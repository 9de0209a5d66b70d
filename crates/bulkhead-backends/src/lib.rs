//! Ways to build a sandbox.
//!
//! A backend is three verbs: [`Backend::create`], [`Sandbox::exec`], [`Process::wait`]. All that
//! is the same for every backend (deadlines, output caps, records, retries) lives above, in
//! `bulkhead-engine`, exactly once.
//!
//! Invariant: backends decide nothing. They take a [`Plan`] and build it, or they fail and leave
//! nothing behind.

pub mod container;
mod copying;
mod doors;
mod error;
mod finding;
#[doc(hidden)]
pub mod fuzzing;
pub mod guest;
mod identity;
mod native;
mod none;
mod props;
pub mod quiet;
mod syscalls;
mod turn;
mod workspace;

use std::sync::Arc;

use bulkhead_linux::together::AllReady;
use bulkhead_policy::{Disk, ExecPlan, Plan};
use bulkhead_spec::{
    Caught, Ending, Guarantees, ImageFacts, ImageRef, Limits, Terminal, Usage,
};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

pub use bulkhead_linux::{cable, crash, fork, together};
pub use doors::{Doors, Sockets, ports};
pub use error::BackendError;
pub use finding::{Finding, State};
pub use native::{Beginning, Native, Places};
pub use none::Unwalled;

/// Builds sandboxes of one kind.
#[async_trait::async_trait]
pub trait Backend: Send + Sync {
    /// The name by which configuration and logs know it.
    fn name(&self) -> &'static str;

    /// Each promise, whether this host lets the backend keep it, and if not, why.
    ///
    /// Claim one only if the conformance suite proves it: whoever places a plan trusts this.
    fn findings(&self) -> Vec<Finding>;

    /// The promises that every sandbox from here keeps.
    fn upholds(&self) -> Guarantees {
        let upheld = |it: &Finding| matches!(it.state, State::Upheld { .. });
        self.findings().into_iter().filter(upheld).map(|it| it.guarantee).collect()
    }

    /// Which connections lead to the gateway of a sandbox from here.
    fn catches(&self) -> Caught {
        Caught::EveryAddress
    }

    /// Whether the private disk of a sandbox from here can be kept beyond its end, and if so, what
    /// [`Guarantee::DiskBounded`](bulkhead_spec::Guarantee) is worth then.
    fn keeps(&self) -> Option<Finding> {
        None
    }

    /// Makes `image` available to sandboxes from here, and tells what it says about itself.
    ///
    /// What is fetched stays; sandboxes share it and never change it.
    async fn furnish(&self, _image: &ImageRef) -> Result<ImageFacts, BackendError> {
        Err(BackendError::Unsupported { backend: self.name(), what: "a sandbox from an image" })
    }

    /// Builds the sandbox of `plan`, under a name that is unique on this host.
    ///
    /// What only the sandbox itself can find out (a wall that the kernel refuses) may be told by
    /// [`Sandbox::stands`] or the first [`Sandbox::exec`]; no program runs before every wall stands.
    ///
    /// # Cancellation
    /// Whatever was built when the future is dropped is torn down again.
    async fn create(&self, id: &str, plan: &Plan) -> Result<Box<dyn Sandbox>, BackendError>;

    /// Makes and looks at once what many sandboxes of this process, or of copies of it, can share.
    /// Their disks begin as `disk` does. What of them is built by others than their creators may
    /// wait until all are created, which is when whoever creates them is ready.
    fn expect_many(&self, _disk: &Disk, _created: &Arc<AllReady>) -> Result<(), BackendError> {
        Ok(())
    }

    /// Removes what a killed Bulkhead left on this host, and tells what it was.
    async fn sweep(&self) -> Result<Vec<String>, BackendError>;

    /// What would be built for `plan`, in lines for people; touches nothing.
    fn describe(&self, plan: &Plan) -> Result<Vec<String>, BackendError>;
}

/// A room in which programs run. Dropping it without [`Sandbox::destroy`] is allowed and
/// destroys it too.
#[async_trait::async_trait]
pub trait Sandbox: Send + Sync {
    /// Waits until every wall stands, or finds out why one does not.
    async fn stands(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Starts a program.
    async fn exec(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError>;

    /// Starts the last program: when it ends, the sandbox is of no more use and may end by itself.
    async fn exec_last(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError> {
        self.exec(exec).await
    }

    /// Where programs inside meet the gateway, to be taken once: there if the plan's network is the
    /// gateway's. Nobody answers until somebody serves them; dropping them refuses everything.
    fn take_doors(&self) -> Option<Doors> {
        None
    }

    /// The stream to the guest inside, where there is one: files, ports, programs by hand.
    fn guest(&self) -> Option<&guest::Link> {
        None
    }

    /// What the sandbox has used until now.
    fn usage(&self) -> Result<Usage, BackendError>;

    /// A hand that can make its programs stand still, where there is one.
    fn freezer(&self) -> Option<&dyn Freezer> {
        None
    }

    /// A hand that can copy what was written on its private disk, where there is one.
    fn copier(&self) -> Option<&dyn Copier> {
        None
    }

    /// A hand that can change its limits, where there is one.
    fn bounds(&self) -> Option<&dyn Bounds> {
        None
    }

    /// Ends every program in the sandbox, now; the sandbox itself is still there to be asked.
    async fn kill(&self) -> Result<(), BackendError>;

    /// Ends every program in the sandbox and removes every trace of it.
    ///
    /// # Guarantees
    /// After `Ok`, no process of the sandbox exists and nothing of it is left on the host.
    async fn destroy(self: Box<Self>) -> Result<(), BackendError>;

    /// Like [`Sandbox::destroy`], but returns as soon as nothing can happen in the sandbox any more,
    /// with what is left of it.
    async fn leave(self: Box<Self>) -> Result<Remains, BackendError> {
        self.destroy().await.map(|()| Remains::default())
    }
}

/// What is left of a sandbox in which no program is and none will be. Dropping it removes that, for
/// which it may wait.
#[derive(Default)]
#[must_use]
pub struct Remains {
    /// What others could see.
    visible: Option<Box<dyn Visible>>,
    hidden: Option<Box<dyn Send>>,
}

/// Something that others could see. Dropping it removes what they could not.
pub(crate) trait Visible: Send {
    /// Removes what they could see.
    fn clear(&mut self);
}

impl Drop for Remains {
    fn drop(&mut self) {
        self.clear_visible();
        drop((self.visible.take(), self.hidden.take()));
    }
}

impl Remains {
    pub(crate) fn of(visible: Box<dyn Visible>, hidden: Box<dyn Send>) -> Self {
        Self { visible: Some(visible), hidden: Some(hidden) }
    }

    /// Removes what whoever looks at the workspace could see.
    pub fn clear_visible(&mut self) {
        if let Some(visible) = &mut self.visible {
            visible.clear();
        }
    }
}

/// Makes the programs of a sandbox stand still: they use no processor and keep their memory.
#[async_trait::async_trait]
pub trait Freezer: Send + Sync {
    /// Returns when all stand still.
    async fn freeze(&self) -> Result<(), BackendError>;

    /// Lets them go on.
    async fn thaw(&self) -> Result<(), BackendError>;
}

/// Copies the private disk of a sandbox.
#[async_trait::async_trait]
pub trait Copier: Send + Sync {
    /// Copies what the sandbox has written on its private disk into `layer`, an empty directory,
    /// which can then be one of the layers that other disks begin with.
    ///
    /// # Assumptions
    /// Nothing in the sandbox writes meanwhile.
    ///
    /// # Cancellation
    /// Leaves a part of the copy in `layer`.
    async fn copy(&self, layer: &std::path::Path) -> Result<Copied, BackendError>;
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of files, without holes.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// What it is a copy of.
    pub extent: Extent,
}

/// What of a disk is in a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// What was changed since the layers that the disk began with; they are needed below it.
    #[default]
    Changes,
    /// Everything.
    Whole,
}

/// Changes the limits of a sandbox that lives.
#[async_trait::async_trait]
pub trait Bounds: Send + Sync {
    /// Holds these limits on memory, processors and processes from now on; others are left as they
    /// are, and so is what is `None`.
    ///
    /// Whoever asks knows that what is in use fits: a kernel may kill what does not.
    async fn bound(&self, limits: &Limits) -> Result<(), BackendError>;
}

/// A program that is running.
#[async_trait::async_trait]
pub trait Process: Send {
    /// Its process as the sandbox counts, for those inside. On the host it means nothing.
    fn pid(&self) -> u32;

    /// Its streams, to be taken once.
    fn take_streams(&mut self) -> Option<Streams>;

    /// Waits for its end. May be called again after it was cancelled.
    async fn wait(&mut self) -> Result<Ending, BackendError>;

    /// A hand on the program that outlives a call of `wait`.
    fn handle(&self) -> Box<dyn ProcessHandle>;
}

/// What can be done to a program while somebody else waits for its end.
#[async_trait::async_trait]
pub trait ProcessHandle: Send + Sync {
    /// Sends a signal to the program and its process group.
    async fn signal(&self, signal: Signal) -> Result<(), BackendError>;

    /// Tells its terminal a new size.
    async fn resize(&self, terminal: Terminal) -> Result<(), BackendError>;
}

/// The streams of a program. One that runs on a terminal has no `stderr` of its own.
pub struct Streams {
    /// What it reads, if it reads.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// What it says.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it complains about.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
}
