//! Rooms that are made before a client wants one.

use std::{sync::Arc, time::Duration};

use bulkhead_engine::rooms::{
    JournalError, LaunchError, Record, launch,
    pool::{self, Key, parked},
};
use tokio::task::JoinHandle;

use super::{House, fresh_id};

/// What the rooms of a server are parked under.
const SLOT: &str = "serve";
/// How often it is looked whether enough of them wait.
const LOOK: Duration = Duration::from_secs(30);
/// How long whoever has just taken one has the host for its first program.
const COURTESY: Duration = Duration::from_millis(20);
/// How long nothing is made after something could not be.
const REST: Duration = Duration::from_secs(5);

impl House {
    /// A room that waits, made what `wanted` says that a room of its id is to be; its id. None if
    /// there is no such room, or none that waits could become it.
    pub(crate) async fn take(
        &self,
        wanted: impl Fn(&str) -> Record,
    ) -> Result<Option<String>, LaunchError> {
        if self.base.pool == 0 {
            return Ok(None);
        }
        let taken = pool::take(&self.journal, wanted, &self.base.program).await;
        self.taken.notify_one();
        match taken {
            Ok(taken) => Ok(taken.map(|it| it.record.id)),
            Err(JournalError::Busy(busy)) => Err(busy.into()),
            // A new room tells its own troubles.
            Err(error) => {
                tracing::debug!(%error, "no room that waits can be had");
                Ok(None)
            }
        }
    }

    /// Keeps as many rooms waiting as are wanted, until the house is shut.
    pub(crate) async fn keep_pool(self: Arc<Self>) {
        while !self.is_closing() {
            match self.refill().await {
                Ok(()) if self.base.pool == 0 => return,
                // Whoever takes one wakes us, and is let go first.
                Ok(()) => {
                    let taken = self.taken.notified();
                    if tokio::time::timeout(LOOK, taken).await.is_ok() {
                        tokio::time::sleep(COURTESY).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no room could be made ahead");
                    self.rest().await;
                }
            }
        }
    }

    /// Waits a while before what failed is tried again, or until the house is shut.
    async fn rest(&self) {
        let until = tokio::time::Instant::now() + REST;
        while !self.is_closing() {
            let taken = self.taken.notified();
            if tokio::time::timeout_at(until, taken).await.is_err() {
                return;
            }
        }
    }

    async fn refill(&self) -> Result<(), LaunchError> {
        let failed = |error: JournalError| LaunchError::System(std::io::Error::other(error));
        let plain = self.base.record("", self.base.spec.clone());
        let key = Key::of(&plain, &self.base.program).filter(|_| self.base.pool != 0);
        pool::drain_stale(&self.journal, SLOT, key.as_ref()).await.map_err(failed)?;
        let Some(key) = key else { return Ok(()) };
        let wanted = usize::try_from(self.base.pool).unwrap_or(usize::MAX);
        while !self.is_closing() && self.journal.waiting(key.as_str()).len() < wanted {
            let parked = parked(&plain, fresh_id()?, SLOT, &key);
            launch(&self.base.program, &parked, &self.base.admission).await?;
        }
        Ok(())
    }

    /// Ends the rooms that wait, once the server stops: nobody will be there to want one.
    pub(crate) async fn drain_pool(&self, keeper: JoinHandle<()>) {
        self.taken.notify_one();
        // What it is making is made, and then ended with the others.
        keeper.await.unwrap_or_default();
        if let Err(error) = pool::drain_stale(&self.journal, SLOT, None).await {
            tracing::warn!(%error, "rooms still wait");
        }
    }
}
