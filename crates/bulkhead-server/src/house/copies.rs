//! What is taken of a room's disk, and the rooms that begin with it.

use std::{io, sync::Arc, time::Duration};

use bulkhead_engine::rooms::{
    Checkpoint, CheckpointError, LaunchError, Listed, Record, RestoreError, Running, fork,
};

use super::{Facts, House, LABEL, Tenant};
use crate::{e2b::transforms::Header, random, templates::Version};

/// Labels of Bulkhead's own: some of what they say opens doors.
pub(crate) const OWN_LABELS: &str = "bulkhead.";

/// Why a room was not copied.
#[derive(Debug)]
pub(crate) enum ForkError {
    /// Its disk could not be copied.
    Disk(CheckpointError),
    /// The copies could not be made.
    Rooms(LaunchError),
}

impl ForkError {
    fn system(error: io::Error) -> Self {
        Self::Rooms(LaunchError::System(error))
    }
}

/// Where a room of a checkpoint is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Beside the others, under this name.
    Beside(String),
    /// Where the room was that the checkpoint was taken of.
    Back(Running),
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
        Ok(self.journal.checkpoint(&self.base.program, &room, Some(&name)).await?.name)
    }

    /// Removes checkpoints that nobody names.
    pub(crate) fn forget_checkpoints(&self, names: &[String]) {
        for name in names {
            if let Err(error) = self.journal.remove_checkpoint(name) {
                tracing::warn!(%error, "a checkpoint that nobody names stays");
            }
        }
    }

    /// Makes the room `id` of a checkpoint.
    pub(crate) async fn restore(
        &self,
        checkpoint: &Checkpoint,
        id: &str,
        place: Place,
    ) -> Result<Record, RestoreError> {
        let mut record = checkpoint.room(id.to_owned(), id.to_owned());
        // What a gateway set for the room that it was taken of may be gone with that room.
        record.spec.egress.secrets.retain(|it| !self.is_header(it));
        record.quota.clone_from(&self.base.quota);
        match place {
            Place::Beside(name) => {
                record.name = name;
                self.launch(&record).await?;
                Ok(record)
            }
            Place::Back(running) => {
                let by = (self.base.program.as_path(), &self.base.admission);
                let made = self.journal.put_back(by, checkpoint, record, running).await?;
                // Whoever was let into the one before is let into this one by its new id only.
                self.depart(&checkpoint.room_id);
                Ok(made)
            }
        }
    }

    /// Makes copies of a room under `names`, which whoever has a key may use.
    pub(crate) async fn copy(
        &self,
        origin: &Listed,
        names: Vec<String>,
    ) -> Result<Vec<Record>, ForkError> {
        let mut ids = Vec::new();
        for name in names {
            ids.push((fresh_id('s')?, name));
        }
        let plain = |record: &mut Record| {
            record.labels.retain(|key, _| !key.starts_with(OWN_LABELS));
            Ok(())
        };
        self.copies(origin, &ids, plain).await
    }

    /// Makes a copy of a room for each of `copies`, which say what its guests are promised; with
    /// these headers and their own network, if that is another than the room was made with.
    pub(crate) async fn fork(
        &self,
        origin: &Tenant,
        copies: &[Facts],
        timeout: Duration,
        changed: Option<&[Header]>,
    ) -> Result<Vec<Arc<Tenant>>, ForkError> {
        let listed = self.journal.find(&origin.id);
        let listed = listed.map_err(|error| ForkError::Disk(error.into()))?;
        let mut ids = Vec::new();
        for _ in copies {
            let id = fresh_id('i')?;
            ids.push((id.clone(), id));
        }
        let mut facts = copies.iter();
        let promised = |record: &mut Record| {
            let Some(facts) = facts.next() else { return Ok(()) };
            record.labels.insert(LABEL.to_owned(), serde_json::to_string(facts)?);
            record.lifetime = facts.lifetime(timeout);
            record.spec.env.insert("E2B_SANDBOX_ID".into(), record.id.as_str().into());
            if let Some(headers) = changed {
                self.reconnect(record, facts, headers)?;
            }
            Ok(())
        };
        let records = self.copies(&listed, &ids, promised).await?;
        for record in &records {
            self.adopt(record).await;
        }
        Ok(records.iter().filter_map(|it| self.tenant(&it.id)).collect())
    }

    /// Gives the room of `record` the network that `facts` speak of, with these headers.
    fn reconnect(
        &self,
        record: &mut Record,
        facts: &Facts,
        headers: &[Header],
    ) -> io::Result<()> {
        let mut spec = self.base.spec.clone();
        facts.network.apply(&mut spec).map_err(io::Error::other)?;
        let laid = self.lay_headers(&record.id, headers)?;
        spec.egress.secrets.extend(laid);
        (record.spec.network, record.spec.egress) = (spec.network, spec.egress);
        Ok(())
    }

    /// Makes copies of a room by these ids and names, each as `changed` makes it: all, or none.
    async fn copies(
        &self,
        origin: &Listed,
        ids: &[(String, String)],
        mut changed: impl FnMut(&mut Record) -> io::Result<()>,
    ) -> Result<Vec<Record>, ForkError> {
        let snapshot = self.journal.snapshot_for_fork(&self.base.program, origin).await;
        let snapshot = snapshot.map_err(ForkError::Disk)?;
        let mut record = |(id, name): &(String, String)| {
            let mut record = origin.record.forked(id.clone(), name.clone(), &snapshot);
            self.copy_headers(&mut record)?;
            changed(&mut record)?;
            Ok(record)
        };
        let records: io::Result<Vec<Record>> = ids.iter().map(&mut record).collect();
        let made = match records {
            Ok(records) => {
                let admission = &self.base.admission;
                let made = fork(&self.base.program, &self.journal, &records, admission).await;
                made.map(|()| records).map_err(ForkError::Rooms)
            }
            Err(error) => Err(ForkError::system(error)),
        };
        if made.is_err() {
            for (id, _) in ids {
                self.forget_headers(id);
            }
        }
        made
    }
}

/// An id that nobody has, of the kind that begins with `kind`.
fn fresh_id(kind: char) -> Result<String, ForkError> {
    random::word(20).map(|it| format!("{kind}{it}")).map_err(ForkError::system)
}
