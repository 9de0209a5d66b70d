//! A program in a sandbox of namespaces.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bulkhead_spec::{Bytes, Ending};

use super::sandbox::Shared;
use crate::{
    BackendError, Process, ProcessHandle, Streams,
    guest::{After, Counted, Disk, Ended, Program, Status},
};

pub(super) struct NativeProcess {
    program: Program,
    shared: Arc<Shared>,
    after: After,
    ending: Option<Ending>,
}

impl NativeProcess {
    pub(super) fn new(program: Program, shared: Arc<Shared>, after: After) -> Self {
        Self { program, shared, after, ending: None }
    }

    /// What ended the program, as those say who end programs.
    fn ending(&self, status: Status, disk: Disk) -> Ending {
        let limits = self.shared.limits();
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
            Some(Ended { status, disk, counted }) => {
                self.note(counted);
                if self.after == After::End {
                    self.shared.leaves.store(true, Ordering::Relaxed);
                }
                self.ending(status, disk)
            }
            // The guest is gone, and everything with it.
            None if 0 < self.shared.usage().oom_kills => {
                Ending::OutOfMemory { limit: self.shared.limits().memory }
            }
            None => Ending::Lost,
        };
        self.ending = Some(ending);
        Ok(ending)
    }

    fn handle(&self) -> Box<dyn ProcessHandle> {
        Box::new(self.program.handle())
    }
}
