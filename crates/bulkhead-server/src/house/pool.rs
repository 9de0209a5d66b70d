//! Rooms that are made before a client wants one.

use std::{sync::Arc, time::Duration};

use bulkhead_engine::rooms::{
    JournalError, LaunchError, launch,
    pool::{self, Key, parked},
};

use tokio::task::JoinHandle;

use super::{House, Wanted, fresh_id};

/// What the rooms of a server are parked under.
const SLOT: &str = "serve";
/// How often it is looked whether enough of them wait.
const LOOK: Duration = Duration::from_secs(30);
/// How long nothing is made after something could not be.
const REST: Duration = Duration::from_secs(5);

impl House {
    /// A room that waits, made what is `wanted`; its id.
    pub(super) async fn take(&self, wanted: &Wanted) -> Result<Option<String>, LaunchError> {
        // Headers that only one room sets, its volumes and its disk are laid before it is made.
        let plain =
            wanted.headers.is_empty() && wanted.mounts.is_empty() && wanted.version.is_none();
        if self.base.pool == 0 || !plain {
            return Ok(None);
        }
        // What a record says can always be written: it was read from a request.
        let record = |id: &str| self.record(id, wanted).unwrap_or_else(|_| self.plain(id));
        let taken = pool::take(&self.journal, record, &self.base.program).await;
        self.taken.notify_one();
        match taken {
            Ok(taken) => Ok(taken.map(|it| it.id)),
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
                // Whoever takes one wakes us.
                Ok(()) => {
                    let taken = self.taken.notified();
                    tokio::time::timeout(LOOK, taken).await.unwrap_or_default();
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
        let plain = self.plain("");
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
