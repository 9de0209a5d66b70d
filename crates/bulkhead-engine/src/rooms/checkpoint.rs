//! Checkpoints: what was on the disk of a room at one moment, and rooms that begin with it.
//!
//! ```text
//! checkpoint: Layers::begin ─▶ shim: freeze, copy, thaw ─▶ sync, rename ─▶ record (fsync)
//! room on it: Journal::begin with the layers in its record ─▶ Engine::open_on
//! ```
//!
//! Invariant: a checkpoint is written down when its layers are whole, and not before. What a crash
//! leaves is a layer that nobody needs, which the next sweep removes.

use std::{collections::BTreeSet, fs, io, path::Path};

use bulkhead_backends::{Copied, Extent, crash};
use bulkhead_policy::{Disk, Kept, Policy};
use bulkhead_spec::{HostPath, Spec, escape};
use serde::{Deserialize, Serialize};

use super::{
    client::{Client, ClientError},
    ended::{CopyDone, copied_by},
    journal::{
        Journal, JournalError, Keeping, Life, Listed, Record, check_name, now, private_dir,
        remove_if_there, write_whole,
    },
    launch::LaunchError,
    layers::{Durability, Lease},
};

const VERSION: u32 = 1;

/// The disk of a room at one moment, and how the room was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The form of this record.
    pub version: u32,
    /// What its user calls it; unique.
    pub name: String,
    /// The name of the room that it was taken of.
    pub room: String,
    /// The id of that room.
    pub room_id: String,
    /// Seconds since 1970, for display.
    pub made: u64,
    /// What a disk that begins with it begins with, the topmost first.
    pub layers: Vec<String>,
    /// Bytes of files in the topmost.
    pub bytes: u64,
    /// Files and directories in it.
    pub files: u64,
    /// The backend that built the room.
    pub backend: String,
    /// What a container daemon started it with, if that was said.
    #[serde(default)]
    pub runtime: Option<String>,
    /// What was asked for.
    pub spec: Spec,
    /// The rules that the room was judged by.
    pub policy: Policy,
}

/// Why there is no checkpoint, or no room on one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The journal cannot be used so.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The room could not be copied.
    #[error(transparent)]
    Room(#[from] ClientError),
    /// Nor could one that has ended.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No checkpoint has this name.
    #[error("there is no checkpoint `{}`", escape(.0))]
    Unknown(String),
    /// A checkpoint has this name already.
    #[error("a checkpoint called `{}` exists already", escape(.0))]
    Taken(String),
    /// The room has ended, and its disk with it.
    #[error("the room `{}` has ended, and its disk with it", escape(.0))]
    Ended(String),
    /// The record of a checkpoint cannot be read.
    #[error("the record of the checkpoint `{}` cannot be read: {why}", escape(.name))]
    Unreadable {
        /// Which.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused something.
    #[error("could not {action}")]
    System {
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn system(action: &'static str) -> impl Fn(io::Error) -> CheckpointError {
    move |source| CheckpointError::System { action, source }
}

/// A copy of a disk that is nobody's yet. Dropping it lets the next sweep remove it.
#[derive(Debug)]
pub struct Snapshot {
    lease: Lease,
    lower: Vec<String>,
    /// What built the room, whatever was asked for.
    backend: String,
    bytes: u64,
    files: u64,
}

impl Snapshot {
    /// What a disk that begins with it begins with, the topmost first.
    pub fn layers(&self) -> Vec<String> {
        [self.lease.id().to_owned()].into_iter().chain(self.lower.iter().cloned()).collect()
    }
}

impl Journal {
    /// Takes a checkpoint of `room`. One that lives stands still meanwhile; one that has ended must
    /// have its disk kept, and `program` (Bulkhead itself) copies it. Without a `name`, the first of
    /// `ROOM-1`, `ROOM-2`, … that is free.
    ///
    /// # Guarantees
    /// After `Ok`, the checkpoint survives a loss of power.
    ///
    /// # Cancellation
    /// There is no checkpoint then; what was copied is removed by the next sweep.
    pub async fn checkpoint(
        &self,
        program: &Path,
        room: &Listed,
        name: Option<&str>,
    ) -> Result<Checkpoint, CheckpointError> {
        if let Some(name) = name {
            check_name(name)?;
            if self.checkpoint_path(name).exists() {
                return Err(CheckpointError::Taken(name.to_owned()));
            }
        }
        let snapshot = self.snapshot(program, room, Durability::Disk).await?;
        let turn = self.turn().map_err(system("take a turn"))?;
        let name = self.free_name(&room.record.name, name)?;
        let checkpoint = Checkpoint {
            version: VERSION,
            name,
            room: room.record.name.clone(),
            room_id: room.record.id.clone(),
            made: now(),
            layers: snapshot.layers(),
            bytes: snapshot.bytes,
            files: snapshot.files,
            backend: snapshot.backend.clone(),
            runtime: room.record.runtime.clone(),
            spec: room.record.spec.clone(),
            policy: room.record.policy.clone(),
        };
        let write = || {
            private_dir(&self.checkpoints)?;
            write_whole(&self.checkpoints, &format!("{}.json", checkpoint.name), &checkpoint)
        };
        write().map_err(system("write the checkpoint down"))?;
        crash::point();
        drop(turn);
        Ok(checkpoint)
    }

    /// Copies the disk of `room`, to be begun with by others.
    async fn snapshot(
        &self,
        program: &Path,
        room: &Listed,
        durability: Durability,
    ) -> Result<Snapshot, CheckpointError> {
        let failed = system("make a layer");
        let ended = room.life != Life::Alive;
        if ended && room.record.keeping == Keeping::Memory {
            return Err(CheckpointError::Ended(room.record.name.clone()));
        }
        // Whoever sweeps does it in turn, and would take one that is not locked yet for a leftover.
        let turn = self.turn().map_err(system("take a turn"))?;
        let fresh = self.layers.begin().map_err(&failed)?;
        drop(turn);
        crash::point();
        let CopyDone { bytes, files, extent, backend } = if ended {
            copied_by(program, &room.record, &fresh.path()).await?
        } else {
            self.copy_living(room, &fresh.path()).await?
        };
        crash::point();
        let lease = fresh.finish(durability).map_err(&failed)?;
        crash::point();
        let lower = match extent {
            Extent::Changes => room.record.layers.clone(),
            Extent::Whole => Vec::new(),
        };
        Ok(Snapshot { lease, lower, backend, bytes, files })
    }

    async fn copy_living(&self, room: &Listed, layer: &Path) -> Result<CopyDone, ClientError> {
        let client = Client::new(self.socket(&room.record.id));
        let backend = client.inspect().await?.backend;
        let Copied { bytes, files, extent } = client.copy(layer).await?;
        Ok(CopyDone { bytes, files, extent, backend })
    }

    /// Copies the disk of `room` once, for rooms that are made right away and end with the host.
    /// What is said of [`Journal::checkpoint`] about `program` holds here.
    pub async fn snapshot_for_fork(
        &self,
        program: &Path,
        room: &Listed,
    ) -> Result<Snapshot, CheckpointError> {
        let durability = match room.record.keeping {
            Keeping::Memory => Durability::Memory,
            Keeping::Disk => Durability::Disk,
        };
        self.snapshot(program, room, durability).await
    }

    /// Every checkpoint, the oldest first, and what is wrong with those that cannot be read.
    pub fn checkpoints(
        &self,
    ) -> Result<(Vec<Checkpoint>, Vec<CheckpointError>), CheckpointError> {
        let failed = system("list checkpoints");
        let entries = match fs::read_dir(&self.checkpoints) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Default::default());
            }
            Err(error) => return Err(failed(error)),
        };
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(&failed)?.path();
            if path.extension().is_some_and(|it| it == "json") {
                match read(&path) {
                    Ok(checkpoint) => found.push(checkpoint),
                    Err(error) => unreadable.push(error),
                }
            }
        }
        found.sort_by(|one, other| (one.made, &one.name).cmp(&(other.made, &other.name)));
        Ok((found, unreadable))
    }

    /// The checkpoint called exactly `name`.
    pub fn find_checkpoint(&self, name: &str) -> Result<Checkpoint, CheckpointError> {
        check_name(name).map_err(|_| CheckpointError::Unknown(name.to_owned()))?;
        let path = self.checkpoint_path(name);
        if !path.exists() {
            return Err(CheckpointError::Unknown(name.to_owned()));
        }
        read(&path)
    }

    /// Removes a checkpoint. Rooms that began with it are not touched.
    pub fn remove_checkpoint(&self, name: &str) -> Result<(), CheckpointError> {
        let found = self.find_checkpoint(name)?;
        let turn = self.turn().map_err(system("take a turn"))?;
        remove_if_there(&self.checkpoint_path(&found.name))
            .map_err(system("remove the checkpoint"))?;
        crash::point();
        drop(turn);
        self.sweep_layers()?;
        Ok(())
    }

    /// Removes layers that nobody begins with any more, and those that a crash left half made.
    pub fn sweep_layers(&self) -> Result<Vec<String>, CheckpointError> {
        // With many rooms, a look at each of them takes time.
        if is_empty(&self.layers.path("")) && is_empty(&self.checkpoints) {
            return Ok(Vec::new());
        }
        let turn = self.turn().map_err(system("take a turn"))?;
        self.drop_half_written().map_err(system("remove what was half written"))?;
        let (checkpoints, unreadable) = self.checkpoints()?;
        let rooms = self.list()?;
        if !unreadable.is_empty() || self.has_unreadable() {
            // Who knows what they need.
            return Ok(Vec::new());
        }
        let needs = |it: &&Listed| it.life == Life::Alive || it.record.keeping == Keeping::Disk;
        let rooms = rooms.iter().filter(needs).flat_map(|it| &it.record.layers);
        let needed: BTreeSet<&String> =
            checkpoints.iter().flat_map(|it| &it.layers).chain(rooms).collect();
        let swept = self.layers.sweep(|id| needed.contains(&id.to_owned()));
        drop(turn);
        swept.map_err(system("remove layers that nobody needs"))
    }

    /// Removes checkpoints that a crash left half written. They are written in turn, and it is ours.
    fn drop_half_written(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.checkpoints).into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "new") {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    /// What the disk of `record` begins with, and where it is kept.
    pub(super) fn disk_of(&self, record: &Record) -> Result<Disk, JournalError> {
        let failed =
            |source| JournalError::System { action: "find the disk of a room", source };
        let path = |dir: &Path| {
            HostPath::try_from(dir.to_owned()).map_err(|error| failed(io::Error::other(error)))
        };
        let layers = record.layers.iter().map(|id| path(&self.layers.path(id)));
        let layers = layers.collect::<Result<_, _>>()?;
        let kept = match record.keeping {
            Keeping::Memory => None,
            Keeping::Disk => {
                let (dir, state) = self.kept_at(&record.id).map_err(failed)?;
                Some(Kept { dir: path(&dir)?, state })
            }
        };
        Ok(Disk { layers, kept })
    }

    fn checkpoint_path(&self, name: &str) -> std::path::PathBuf {
        self.checkpoints.join(format!("{name}.json"))
    }

    fn free_name(&self, room: &str, name: Option<&str>) -> Result<String, CheckpointError> {
        if let Some(name) = name {
            if self.checkpoint_path(name).exists() {
                return Err(CheckpointError::Taken(name.to_owned()));
            }
            return Ok(name.to_owned());
        }
        // A name is at most 64 long.
        let room: String = room.chars().take(56).collect();
        let free = |at: &u32| !self.checkpoint_path(&format!("{room}-{at}")).exists();
        let at = (1..100_000).find(free).unwrap_or(100_000);
        Ok(format!("{room}-{at}"))
    }
}

impl Checkpoint {
    /// The record of a new room that begins with this checkpoint.
    pub fn room(&self, id: String, name: String) -> Record {
        let mut record = Record::new(id, name, self.spec.clone(), self.policy.clone());
        record.backend.clone_from(&self.backend);
        record.runtime.clone_from(&self.runtime);
        record.layers.clone_from(&self.layers);
        record
    }
}

impl Record {
    /// The record of a room like this one that begins with `snapshot`.
    #[must_use]
    pub fn forked(&self, id: String, name: String, snapshot: &Snapshot) -> Self {
        let mut record = Self::new(id, name, self.spec.clone(), self.policy.clone());
        record.backend.clone_from(&snapshot.backend);
        record.runtime.clone_from(&self.runtime);
        record.labels.clone_from(&self.labels);
        record.lifetime = self.lifetime;
        record.keeping = self.keeping;
        record.quota.clone_from(&self.quota);
        record.layers = snapshot.layers();
        record
    }
}

/// Whether there is nothing in `dir`, or no `dir`.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).into_iter().flatten().next().is_none()
}

fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let unreadable = |why: String| CheckpointError::Unreadable { name: name.clone(), why };
    let text = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    if version != Some(VERSION.into()) {
        let version =
            version.map_or_else(|| "no form".to_owned(), |it| format!("the form {it}"));
        return Err(unreadable(format!("it has {version}, and this program knows {VERSION}")));
    }
    serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))
}
