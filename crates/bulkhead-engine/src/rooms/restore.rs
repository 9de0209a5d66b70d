//! A checkpoint in the place of the room that it was taken of, and names for many rooms.

use std::{path::Path, time::Duration};

use bulkhead_spec::escape;

use super::{
    admission::Admission,
    checkpoint::Checkpoint,
    client::{Client, ClientError},
    journal::{Journal, JournalError, Life, Listed, Record},
    launch::{LaunchError, launch},
};

/// What becomes of a room that runs where another one is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// It stays, and the other one is not made.
    Stays,
    /// It is ended first, with every program in it.
    Ends,
}

/// Why no room was made of a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The journal cannot be used so.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The room in its place could not be asked, or did not end.
    #[error(transparent)]
    Room(#[from] ClientError),
    /// The room did not come to be.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// There are programs that run in its place.
    #[error("the room `{}` runs", escape(.0))]
    Runs(String),
}

impl Journal {
    /// Makes the room of `record`, which was made of `checkpoint`, in the place of the room that it
    /// was taken of, under its name, with its labels and its lifetime. `program` is Bulkhead itself.
    /// Nothing is ended for a room that the host does not bear.
    pub async fn put_back(
        &self,
        (program, admission): (&Path, &Admission),
        checkpoint: &Checkpoint,
        mut record: Record,
        running: Running,
    ) -> Result<Record, RestoreError> {
        admission.check().map_err(LaunchError::from)?;
        record.name.clone_from(&checkpoint.room);
        let rooms = self.list()?;
        // The room itself, or one that was put in its place before.
        let alive = |it: &&Listed| it.life == Life::Alive && it.record.name == checkpoint.room;
        let itself = |it: &&Listed| it.record.id == checkpoint.room_id;
        let old = rooms.iter().find(alive).or_else(|| rooms.iter().find(itself));
        if let Some(old) = old {
            let Record { labels, lifetime, keeping, quota, .. } = old.record.clone();
            record = Record { labels, lifetime, keeping, quota, ..record };
            if old.life == Life::Alive {
                self.end_for_another(old, running).await?;
            }
        }
        launch(program, &record, admission).await?;
        if let Some(old) = old {
            self.forget(&old.record.id)?;
        }
        Ok(record)
    }

    async fn end_for_another(
        &self,
        old: &Listed,
        running: Running,
    ) -> Result<(), RestoreError> {
        let client = Client::new(self.socket(&old.record.id));
        if !client.inspect().await?.paused && running == Running::Stays {
            return Err(RestoreError::Runs(old.record.name.clone()));
        }
        client.end(Duration::ZERO).await?;
        self.settled(&old.record.id).await;
        Ok(())
    }

    /// Waits until the shim of a room that ends has let go, for a while.
    pub async fn settled(&self, id: &str) {
        for _ in 0..500 {
            if !self.is_held(id) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// `PREFIX-1` and so on, so many of those that no living room has. Rooms of other names are not looked
    /// at.
    pub fn free_names(&self, prefix: &str, count: u32) -> Vec<String> {
        let all = (1_u32..).map(|at| format!("{prefix}-{at}"));
        let free = all.filter(|it| self.named(it).is_none());
        free.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
    }
}
