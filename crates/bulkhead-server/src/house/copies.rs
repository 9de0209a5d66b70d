//! What is taken of a room's disk, and the rooms that begin with it.

use std::{io, sync::Arc, time::Duration};

use bulkhead_engine::rooms::{CheckpointError, LaunchError, Record, fork};

use super::{Facts, House, LABEL, Tenant};
use crate::{random, templates::Version};

/// Why a room was not copied.
#[derive(Debug)]
pub(crate) enum ForkError {
    /// Its disk could not be copied.
    Disk(CheckpointError),
    /// The copies could not be made.
    Rooms(LaunchError),
}

impl House {
    /// Lets the room of `record` begin with `version`.
    pub(super) fn begin_with(
        &self,
        version: &Version,
        record: &mut Record,
    ) -> Result<(), LaunchError> {
        let found = self.journal.find_checkpoint(&version.checkpoint);
        let found = found.map_err(|error| LaunchError::System(io::Error::other(error)))?;
        record.layers = found.layers;
        record.spec.root = found.spec.root;
        for (name, value) in &version.env {
            record.spec.env.entry(name.into()).or_insert_with(|| value.into());
        }
        Ok(())
    }

    /// Takes a checkpoint of a room, and returns its name.
    pub(crate) async fn checkpoint(&self, id: &str) -> Result<String, CheckpointError> {
        let name = random::word(20).map(|it| format!("e2b-{it}"));
        let name = name.map_err(|source| CheckpointError::System {
            action: "find a name for the checkpoint",
            source,
        })?;
        let room = self.journal.find(id)?;
        Ok(self.journal.checkpoint(&room, Some(&name)).await?.name)
    }

    /// Removes checkpoints that nobody names.
    pub(crate) fn forget_checkpoints(&self, names: &[String]) {
        for name in names {
            if let Err(error) = self.journal.remove_checkpoint(name) {
                tracing::warn!(%error, "a checkpoint that nobody names stays");
            }
        }
    }

    /// Makes a copy of a room for each of `copies`, which say what its guests are promised.
    pub(crate) async fn fork(
        &self,
        origin: &Tenant,
        copies: &[Facts],
        timeout: Duration,
    ) -> Result<Vec<Arc<Tenant>>, ForkError> {
        let listed = self.journal.find(&origin.id);
        let listed = listed.map_err(|error| ForkError::Disk(error.into()))?;
        let snapshot = self.journal.snapshot_for_fork(&listed).await;
        let snapshot = snapshot.map_err(ForkError::Disk)?;
        let system = |error| ForkError::Rooms(LaunchError::System(error));
        let mut records = Vec::new();
        for facts in copies {
            let id = format!("i{}", random::word(20).map_err(system)?);
            let mut record = listed.record.forked(id.clone(), id.clone(), &snapshot);
            let text = serde_json::to_string(facts).map_err(|it| system(it.into()))?;
            record.labels.insert(LABEL.to_owned(), text);
            record.lifetime = facts.lifetime(timeout);
            record.spec.env.insert("E2B_SANDBOX_ID".into(), id.into());
            records.push(record);
        }
        let made = fork(&self.base.program, &self.journal, &records).await;
        made.map_err(ForkError::Rooms)?;
        for record in &records {
            self.adopt(record).await;
        }
        Ok(records.iter().filter_map(|it| self.tenant(&it.id)).collect())
    }
}
