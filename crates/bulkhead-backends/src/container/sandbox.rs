//! A sandbox in a container, alive.

use std::{
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bulkhead_linux::cgroup::Watched;
use bulkhead_policy::ExecPlan;
use bulkhead_spec::{Bytes, Ending, Limits, Usage};
use rustix::{
    io::Errno,
    process::{Signal, pidfd_send_signal},
};

use super::{client::Daemon, copier::Source, made::Made};
use crate::{
    BackendError, Bounds, Copied, Copier, Doors, Freezer, Process, ProcessHandle, Sandbox,
    Streams,
    guest::{After, Disk, Ended, Link, Program, Status},
};

/// The room. Dropping it removes its container.
pub(super) struct ContainerSandbox {
    link: Link,
    shared: Arc<Shared>,
    doors: Mutex<Option<Doors>>,
    disk: Source,
    made: Made,
}

/// What there is of a container whose walls stand.
pub(super) struct Stands {
    pub(super) link: Link,
    pub(super) first: Option<First>,
    pub(super) doors: Option<Doors>,
    pub(super) disk: Source,
}

/// The first process of a container, as this host sees it.
pub(super) struct First {
    pub(super) process: OwnedFd,
    pub(super) counters: Watched,
}

/// What a container may use.
pub(super) struct Bounded {
    /// The limits that are held.
    pub(super) limits: Limits,
    /// Processes that the daemon counts and that are none of the program's.
    pub(super) overhead: u32,
}

/// What a running program needs of its room.
struct Shared {
    daemon: Daemon,
    container: String,
    bounded: Mutex<Bounded>,
    first: Option<First>,
    /// What was last counted: the counters end with the container.
    counted: Mutex<Usage>,
}

struct ContainerProcess {
    program: Program,
    shared: Arc<Shared>,
    ending: Option<Ending>,
}

impl ContainerSandbox {
    pub(super) fn new(made: Made, container: String, stands: Stands, bounded: Bounded) -> Self {
        let Stands { link, first, doors, disk } = stands;
        let shared = Shared {
            daemon: made.daemon().clone(),
            container,
            bounded: Mutex::new(bounded),
            first,
            counted: Mutex::new(Usage::default()),
        };
        Self { link, shared: Arc::new(shared), doors: Mutex::new(doors), disk, made }
    }
}

impl Shared {
    fn bounded(&self) -> MutexGuard<'_, Bounded> {
        self.bounded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits that are held at this moment.
    fn limits(&self) -> Limits {
        self.bounded().limits
    }

    /// What the sandbox has used until now, as far as anybody here can tell.
    fn usage(&self) -> Usage {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = self.first.as_ref().and_then(|it| it.counters.usage()) {
            *counted = Usage {
                wall: Duration::ZERO,
                cpu: used.cpu_time.or(counted.cpu),
                memory: used.memory.map(Bytes),
                memory_peak: used.memory_peak.map(Bytes).or(counted.memory_peak),
                processes_peak: used.processes_peak.or(counted.processes_peak),
                oom_kills: used.oom_kills.max(counted.oom_kills),
                process_refusals: used.process_refusals.max(counted.process_refusals),
            };
        }
        *counted
    }

    /// Notes what the guest counted, where nobody else does.
    fn note(&self, ended: &Ended) {
        if self.first.is_some() {
            return;
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.cpu = Some(Duration::from_micros(ended.counted.cpu_micros));
        let largest = ended.counted.largest_kib.saturating_mul(1024);
        counted.memory_peak = Some(Bytes(largest));
    }

    /// Ends every program, through the daemon or, where that does not answer, without it: the first
    /// process takes the others with it.
    async fn end(&self) -> Result<(), BackendError> {
        let told = self.daemon.kill(&self.container).await;
        let (Err(error), Some(first)) = (&told, &self.first) else { return told };
        match pidfd_send_signal(&first.process, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {
                tracing::debug!(%error, "ended without the daemon");
                Ok(())
            }
            Err(_) => told,
        }
    }

    /// Whether the kernel killed something here for want of memory.
    async fn ran_out_of_memory(&self) -> Result<bool, BackendError> {
        if 0 < self.usage().oom_kills {
            return Ok(true);
        }
        let found = self.daemon.docker.inspect_container(&self.container, None).await;
        let found = found.map_err(self.daemon.failed("tell how a container ended"))?;
        let killed = found.state.and_then(|it| it.oom_killed) == Some(true);
        if killed {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.oom_kills = counted.oom_kills.max(1);
        }
        Ok(killed)
    }

    /// What ended a program, as those say who end programs.
    async fn ending(&self, ended: &Ended) -> Result<Ending, BackendError> {
        let limits = self.limits();
        let killed = matches!(ended.status, Status::Signaled(9) | Status::Exited(137));
        if killed && self.ran_out_of_memory().await? {
            return Ok(Ending::OutOfMemory { limit: limits.memory });
        }
        Ok(match ended.status {
            Status::Exited(0) => Ending::Exited { code: 0 },
            _ if ended.disk == Disk::Full => Ending::DiskFull { limit: limits.disk },
            Status::Exited(code) => Ending::Exited { code },
            Status::Signaled(signal) => Ending::Signaled { signal },
        })
    }

    /// What it means that the guest is gone: the container ended, or the daemon did.
    async fn lost(&self) -> Result<Ending, BackendError> {
        // At once: whoever cleans up after a container removes its counters.
        self.usage();
        let found = self.daemon.ended(&self.container).await;
        let found = found.map_err(self.daemon.failed("keep the container running"))?;
        let state = found.state.unwrap_or_default();
        if state.oom_killed == Some(true) || 0 < self.usage().oom_kills {
            return Ok(Ending::OutOfMemory { limit: self.limits().memory });
        }
        if state.running == Some(true) {
            // It lives, and its stream is gone: the daemon was started anew under it.
            return Err(BackendError::Daemon {
                daemon: self.daemon.facts.product.title(),
                action: "keep the stream to the container open",
                source: io::ErrorKind::ConnectionReset.into(),
                hint: Some("the daemon was restarted; run it again".to_owned()),
            });
        }
        Ok(Ending::Lost)
    }
}

#[async_trait::async_trait]
impl Sandbox for ContainerSandbox {
    async fn exec(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError> {
        // The guest stays: the counters of a container end with it.
        let program = self.link.exec(exec, After::Stay).await?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(ContainerProcess { program, shared, ending: None }))
    }

    fn take_doors(&self) -> Option<Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn guest(&self) -> Option<&Link> {
        Some(&self.link)
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        Ok(self.shared.usage())
    }

    fn freezer(&self) -> Option<&dyn Freezer> {
        Some(self)
    }

    fn copier(&self) -> Option<&dyn Copier> {
        Some(self)
    }

    fn bounds(&self) -> Option<&dyn Bounds> {
        Some(self)
    }

    async fn kill(&self) -> Result<(), BackendError> {
        self.shared.usage();
        self.shared.end().await
    }

    async fn destroy(self: Box<Self>) -> Result<(), BackendError> {
        let Self { link, shared, doors, disk, made } = *self;
        drop((doors, link, disk));
        if let Err(error) = shared.daemon.remove(&shared.container).await {
            // What cannot be removed now must not go on running; its record stays for a sweep.
            shared.end().await?;
            return Err(error);
        }
        made.release()
    }
}

#[async_trait::async_trait]
impl Freezer for ContainerSandbox {
    async fn freeze(&self) -> Result<(), BackendError> {
        self.shared.daemon.pause(&self.shared.container).await
    }

    async fn thaw(&self) -> Result<(), BackendError> {
        self.shared.daemon.unpause(&self.shared.container).await
    }
}

#[async_trait::async_trait]
impl Copier for ContainerSandbox {
    async fn copy(&self, layer: &Path) -> Result<Copied, BackendError> {
        self.disk.copy(layer).await
    }
}

#[async_trait::async_trait]
impl Bounds for ContainerSandbox {
    async fn bound(&self, limits: &Limits) -> Result<(), BackendError> {
        let Limits { memory, cpus, pids, .. } = *limits;
        let overhead = self.shared.bounded().overhead;
        let counted = pids.map(|it| it.saturating_add(overhead));
        let wanted = Limits { memory, cpus, pids: counted, ..Limits::default() };
        self.shared.daemon.update(&self.shared.container, &wanted).await?;
        let mut held = self.shared.bounded();
        held.limits = Limits { pids, ..wanted }.or(held.limits);
        Ok(())
    }
}

#[async_trait::async_trait]
impl Process for ContainerProcess {
    fn pid(&self) -> u32 {
        self.program.pid()
    }

    fn take_streams(&mut self) -> Option<Streams> {
        self.program.take_streams()
    }

    async fn wait(&mut self) -> Result<Ending, BackendError> {
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        let ending = match self.program.wait().await? {
            Some(ended) => {
                self.shared.note(&ended);
                self.shared.ending(&ended).await?
            }
            None => self.shared.lost().await?,
        };
        self.ending = Some(ending);
        Ok(ending)
    }

    fn handle(&self) -> Box<dyn ProcessHandle> {
        Box::new(self.program.handle())
    }
}
