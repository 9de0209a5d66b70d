//! A program in a sandbox of namespaces.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError},
    time::Duration,
};

use bulkhead_guest::protocol::{Counted, Disk, Status, ToGuest, ToHost};
use bulkhead_linux::launch::Stage;
use bulkhead_policy::ExecPlan;
use bulkhead_spec::{Bytes, Ending, Terminal};
use rustix::{
    process::Signal,
    termios::{Winsize, tcsetwinsize},
};
use tokio::io::unix::AsyncFd;

use super::sandbox::{Shared, shown};
use crate::{BackendError, Process, ProcessHandle, Streams};

type Tty = Arc<AsyncFd<OwnedFd>>;

pub(super) struct NativeProcess {
    id: u32,
    shared: Arc<Shared>,
    streams: Option<Streams>,
    terminal: Option<Tty>,
    ending: Option<Ending>,
}

struct Handle {
    id: u32,
    shared: Arc<Shared>,
    terminal: Option<Tty>,
}

impl NativeProcess {
    pub(super) fn new(
        id: u32,
        shared: Arc<Shared>,
        streams: Streams,
        terminal: Option<Tty>,
    ) -> Self {
        Self { id, shared, streams: Some(streams), terminal, ending: None }
    }

    /// What ended the program, as those say who end programs.
    fn ending(&self, status: Status, disk: Disk) -> Ending {
        let limits = &self.shared.limits;
        let killed = matches!(status, Status::Signaled(9) | Status::Exited(137));
        if killed && 0 < self.shared.usage().oom_kills {
            return Ending::OutOfMemory { limit: limits.memory };
        }
        match status {
            Status::Exited(0) => Ending::Exited { code: 0 },
            _ if disk == Disk::Full => Ending::DiskFull { limit: limits.disk },
            Status::Exited(code) => Ending::Exited { code },
            Status::Signaled(signal) => Ending::Signaled { signal },
        }
    }

    fn note(&self, counted: Counted) {
        let mut noted = self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.cpu = Some(Duration::from_micros(counted.cpu_micros));
        noted.memory_peak = Some(Bytes(counted.largest_kib.saturating_mul(1024)));
    }
}

#[async_trait::async_trait]
impl Process for NativeProcess {
    fn take_streams(&mut self) -> Option<Streams> {
        self.streams.take()
    }

    async fn wait(&mut self) -> Result<Ending, BackendError> {
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        let failed = |source| BackendError::System { action: "wait for a program", source };
        let ending = match self.shared.control.about(self.id).await.map_err(failed)? {
            Some(ToHost::Ended { status, disk, counted, .. }) => {
                self.note(counted);
                self.ending(status, disk)
            }
            Some(other) => return Err(BackendError::Guest(format!("{other:?} for an end"))),
            // The guest is gone, and everything with it.
            None if 0 < self.shared.usage().oom_kills => {
                Ending::OutOfMemory { limit: self.shared.limits.memory }
            }
            None => Ending::Lost,
        };
        self.ending = Some(ending);
        Ok(ending)
    }

    fn handle(&self) -> Box<dyn ProcessHandle> {
        let (shared, terminal) = (Arc::clone(&self.shared), self.terminal.clone());
        Box::new(Handle { id: self.id, shared, terminal })
    }
}

#[async_trait::async_trait]
impl ProcessHandle for Handle {
    async fn signal(&self, signal: Signal) -> Result<(), BackendError> {
        let message = ToGuest::Signal { id: self.id, signal: signal.as_raw() };
        let said = self.shared.control.say(&message, &[]).await;
        said.map_err(|source| BackendError::System { action: "send a signal", source })
    }

    async fn resize(&self, size: Terminal) -> Result<(), BackendError> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        let size =
            Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(terminal.get_ref(), size).map_err(|errno| BackendError::System {
            action: "tell the terminal its size",
            source: errno.into(),
        })
    }
}

/// Why a program did not start.
pub(super) fn not_started(exec: &ExecPlan, stage: Stage, errno: i32) -> BackendError {
    let source = io::Error::from_raw_os_error(errno);
    let program = exec.argv().first().map(|it| shown(it)).unwrap_or_default();
    match stage {
        Stage::Clone | Stage::Prepare => {
            BackendError::System { action: "start a program", source }
        }
        Stage::Dir => BackendError::Dir { dir: exec.dir().to_string(), source },
        Stage::Execute if source.kind() == io::ErrorKind::NotFound => {
            BackendError::NotFound { program }
        }
        Stage::Execute => BackendError::NotExecutable { program, source },
    }
}
