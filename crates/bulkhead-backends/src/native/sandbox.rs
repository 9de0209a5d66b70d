//! A sandbox of namespaces, alive.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bulkhead_image::InUse;
use bulkhead_linux::{
    birth::Newborn,
    cgroup::{self, Cgroup},
    crash,
    walls::Walls,
};
use bulkhead_policy::ExecPlan;
use bulkhead_spec::{Bytes, Cpus, Limits, Usage};
use rustix::io::Errno;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::OnceCell,
    time::timeout,
};

use super::{birth::Spent, copier::Source, process::NativeProcess};
use crate::{
    BackendError, Bounds, Copied, Copier, Doors, Freezer, Process, Remains, Sandbox,
    guest::{After, Link, Unready},
    identity::Owner,
    quiet::watch,
    workspace::stand_in::StandIns,
};

/// How long the kernel may take to end a sandbox before we say that it is stuck.
const STUCK: Duration = Duration::from_secs(10);

/// How long a guest may take that ends by itself. Most take a fraction of a millisecond; what holds it
/// up is a crowd of other processes, which die sooner if they are ended together.
const LEAVING: Duration = Duration::from_millis(20);

/// The room. Its fields are dropped in this order: first the programs, then what held them.
pub(super) struct NativeSandbox {
    shared: Arc<Shared>,
    /// Set once the guest has said that its walls stand.
    ready: OnceCell<()>,
    stand_ins: StandIns,
    owner: Owner,
    doors: Mutex<Option<Doors>>,
    /// Keeps the layers of its root from being removed.
    image: Option<InUse>,
    disk: Source,
    /// Until the guest has said that its walls stand.
    spent: Mutex<Option<Spent>>,
}

/// What a running program needs of its room.
pub(super) struct Shared {
    newborn: Mutex<Newborn>,
    ended: AsyncFd<OwnedFd>,
    link: Link,
    cgroup: Option<Cgroup>,
    limits: Mutex<Limits>,
    /// Whether the guest has said its last and ends by itself.
    pub(super) leaves: AtomicBool,
    /// What the guest counted, for hosts where no cgroup does.
    pub(super) counted: Mutex<Usage>,
}

/// What holds a sandbox on the host, handed over to the room.
pub(super) struct Held {
    pub(super) cgroup: Option<Cgroup>,
    pub(super) stand_ins: StandIns,
    pub(super) owner: Owner,
    pub(super) doors: Option<Doors>,
    pub(super) image: Option<InUse>,
    pub(super) disk: Source,
    pub(super) spent: Spent,
}

impl NativeSandbox {
    pub(super) fn new(
        newborn: Newborn,
        link: Link,
        mut held: Held,
        limits: &Limits,
    ) -> io::Result<Self> {
        let ended = watch(newborn.pidfd().try_clone_to_owned()?, Interest::READABLE)?;
        let shared = Shared {
            newborn: Mutex::new(newborn),
            ended,
            link,
            cgroup: held.cgroup.take(),
            limits: Mutex::new(*limits),
            leaves: AtomicBool::new(false),
            counted: Mutex::new(Usage::default()),
        };
        let (shared, ready) = (Arc::new(shared), OnceCell::new());
        let Held { cgroup: _, stand_ins, owner, doors, image, disk, spent } = held;
        let (doors, spent) = (Mutex::new(doors), Mutex::new(Some(spent)));
        Ok(Self { shared, ready, stand_ins, owner, doors, image, disk, spent })
    }

    /// Has the guest put its walls up, before anything else that it is told.
    pub(super) fn raise(&self, walls: Walls) {
        self.shared.link.raise(walls);
    }

    /// Waits until the walls stand, or finds out what went wrong.
    async fn stand(&self) -> Result<(), BackendError> {
        self.shared.link.ready().await.map_err(|unready| match unready {
            Unready::Failed(error) | Unready::Broken(error) => error,
            Unready::Gone => self.stillborn(),
        })
    }

    /// Why the guest never spoke.
    fn stillborn(&self) -> BackendError {
        match self.shared.newborn().failure() {
            Some(failed) => BackendError::Build {
                hint: hint(&failed.action, &failed.source),
                action: failed.action,
                source: failed.source,
            },
            None => BackendError::Guest("it ended before its walls stood".to_owned()),
        }
    }
}

/// What to do about steps that are known to fail on some hosts.
fn hint(action: &str, source: &io::Error) -> Option<String> {
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    if denied && (action.starts_with("mount") || action.starts_with("map")) {
        return Some("run `bulkhead doctor`: this host restricts user namespaces".to_owned());
    }
    if action == "make new namespaces" {
        return Some("run `bulkhead doctor` to see what this host lacks".to_owned());
    }
    let framed = ["`new/etc/", "`new/dev/"].iter().any(|it| action.contains(it));
    if framed && source.kind() == io::ErrorKind::NotFound {
        let hint = "a part of `frames` in the state directory is gone: remove `frames`, and it is \
                    laid again";
        return Some(hint.to_owned());
    }
    if action.contains("private copy") {
        return Some("overlay mounts in user namespaces need Linux 5.11".to_owned());
    }
    if source.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        let hint = "a link in the root filesystem is in the way; put a directory in its place";
        return Some(hint.to_owned());
    }
    None
}

impl Shared {
    fn newborn(&self) -> std::sync::MutexGuard<'_, Newborn> {
        self.newborn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits that are held at this moment.
    pub(super) fn limits(&self) -> Limits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> Usage {
        let counted = *self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cgroup) = &self.cgroup else { return counted };
        let used = cgroup.usage();
        Usage {
            wall: Duration::ZERO,
            cpu: used.cpu_time.or(counted.cpu),
            memory: used.memory.map(Bytes),
            memory_peak: used.memory_peak.map(Bytes).or(counted.memory_peak),
            processes_peak: used.processes_peak,
            oom_kills: used.oom_kills,
            process_refusals: used.process_refusals,
        }
    }

    /// Whether the last program has ended, and none is left of those that it started.
    fn is_deserted(&self) -> Result<bool, BackendError> {
        let last = self.leaves.load(Ordering::Relaxed);
        Ok(last && self.newborn().is_deserted().map_err(failed_to_end)?)
    }

    /// Waits until no process is left, and ends those that do not end by themselves.
    async fn end(&self) -> Result<(), BackendError> {
        if self.leaves.load(Ordering::Relaxed)
            && let Ok(Ok(mut ready)) = timeout(LEAVING, self.ended.readable()).await
        {
            ready.retain_ready();
            let reaped = self.newborn().reap();
            return reaped.map_err(failed_to_end);
        }
        self.kill().await
    }

    /// Ends every process and waits until none is left.
    pub(super) async fn kill(&self) -> Result<(), BackendError> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill().map_err(|error| failed_to_end(io::Error::other(error)))?;
        }
        self.newborn().kill().map_err(failed_to_end)?;
        match timeout(STUCK, self.ended.readable()).await {
            Ok(ready) => {
                ready.map_err(failed_to_end)?.retain_ready();
                self.newborn().reap().map_err(failed_to_end)
            }
            Err(_elapsed) => {
                Err(failed_to_end(io::Error::other("a process is stuck in the kernel")))
            }
        }
    }
}

fn failed_to_end(source: io::Error) -> BackendError {
    BackendError::System { action: "end the sandbox", source }
}

impl NativeSandbox {
    async fn start(
        &self,
        exec: &ExecPlan,
        after: After,
    ) -> Result<NativeProcess, BackendError> {
        // Said before the guest is ready, so that it need not be woken for it; it puts its walls
        // up before it hears this. If it is gone, `stand` tells why.
        let starting = self.shared.link.begin_exec(exec, after)?;
        self.stands().await?;
        if after == After::End {
            self.shared.newborn().look_for_offspring();
        }
        let program = starting.finish().await.map_err(|it| it.of(exec))?;
        Ok(NativeProcess::new(program, Arc::clone(&self.shared), after))
    }
}

#[async_trait::async_trait]
impl Sandbox for NativeSandbox {
    async fn stands(&self) -> Result<(), BackendError> {
        let stood = || async {
            self.stand().await?;
            self.shared.newborn().wean();
            drop(self.spent.lock().unwrap_or_else(PoisonError::into_inner).take());
            Ok(())
        };
        self.ready.get_or_try_init(stood).await.copied()
    }

    async fn exec(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError> {
        Ok(Box::new(self.start(exec, After::Stay).await?))
    }

    async fn exec_last(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError> {
        let last = self.start(exec, After::End).await?;
        self.disk.let_go();
        Ok(Box::new(last))
    }

    fn take_doors(&self) -> Option<Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn guest(&self) -> Option<&Link> {
        Some(&self.shared.link)
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        Ok(self.shared.usage())
    }

    fn freezer(&self) -> Option<&dyn Freezer> {
        self.shared.cgroup.as_ref().map(|_| self as &dyn Freezer)
    }

    fn copier(&self) -> Option<&dyn Copier> {
        Some(self)
    }

    fn bounds(&self) -> Option<&dyn Bounds> {
        self.shared.cgroup.as_ref().map(|_| self as &dyn Bounds)
    }

    async fn kill(&self) -> Result<(), BackendError> {
        self.shared.kill().await
    }

    async fn destroy(self: Box<Self>) -> Result<(), BackendError> {
        self.shared.end().await?;
        crash::point();
        let Self { shared, ready: _, stand_ins, owner, doors, image, disk, spent } = *self;
        drop((shared, stand_ins, owner, doors, image, disk, spent));
        Ok(())
    }

    async fn leave(mut self: Box<Self>) -> Result<Remains, BackendError> {
        if !self.shared.is_deserted()? {
            return self.destroy().await.map(|()| Remains::default());
        }
        crash::point();
        // Nobody is left to make what they stand for.
        let stand_ins = std::mem::take(&mut self.stand_ins);
        Ok(Remains::of(Box::new(stand_ins), self))
    }
}

#[async_trait::async_trait]
impl Copier for NativeSandbox {
    async fn copy(&self, layer: &Path) -> Result<Copied, BackendError> {
        self.stands().await?;
        let (first, pid) = {
            let newborn = self.shared.newborn();
            (newborn.pidfd().try_clone_to_owned(), newborn.pid())
        };
        let first =
            first.map_err(|source| BackendError::System { action: "copy the disk", source })?;
        self.disk.copy((first.as_fd(), pid), layer).await
    }
}

#[async_trait::async_trait]
impl Freezer for NativeSandbox {
    async fn freeze(&self) -> Result<(), BackendError> {
        // One that stands still while it is being born could not finish it.
        self.stands().await?;
        let Some(cgroup) = &self.shared.cgroup else { return Ok(()) };
        cgroup.freeze().map_err(|error| BackendError::System {
            action: "freeze the sandbox",
            source: io::Error::other(error),
        })
    }

    async fn thaw(&self) -> Result<(), BackendError> {
        let Some(cgroup) = &self.shared.cgroup else { return Ok(()) };
        cgroup.thaw().map_err(|error| BackendError::System {
            action: "let the sandbox go on",
            source: io::Error::other(error),
        })
    }
}

#[async_trait::async_trait]
impl Bounds for NativeSandbox {
    async fn bound(&self, limits: &Limits) -> Result<(), BackendError> {
        let Some(cgroup) = &self.shared.cgroup else { return Ok(()) };
        let wanted = cgroup::Limits {
            memory: limits.memory.map(|it| it.0),
            cpu_millis: limits.cpus.map(Cpus::millis),
            // One more for the guest, which is none of the program's.
            processes: limits.pids.map(|it| it.saturating_add(1)),
        };
        cgroup.set(&wanted).map_err(|error| BackendError::System {
            action: "change the limits of the sandbox",
            source: io::Error::other(error),
        })?;
        let mut held = self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { memory, cpus, pids, .. } = *limits;
        *held = Limits { memory, cpus, pids, ..Limits::default() }.or(*held);
        Ok(())
    }
}
