//! What is written down about one room, and what it tells.

use std::{collections::BTreeMap, fs, io, path::Path};

use bulkhead_policy::Policy;
use bulkhead_spec::{Span, Spec};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{
    files::{lock_of, now},
    parked::Pooled,
    quota::Quota,
};

/// The form of records that this program writes and reads.
const VERSION: u32 = 1;
pub(super) const RECORD: &str = "room.json";
pub(super) const END: &str = "end.json";

/// A room as it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The form of this record.
    pub version: u32,
    /// Unique on this host, for ever.
    pub id: String,
    /// What its user calls it; unique among living rooms.
    pub name: String,
    /// What its user says about it.
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970, for display.
    pub made: u64,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// The backend that was asked for.
    pub backend: String,
    /// What a container daemon is to start it with, if that was said.
    #[serde(default)]
    pub runtime: Option<String>,
    /// What was asked for.
    pub spec: Spec,
    /// The rules that it is judged by.
    pub policy: Policy,
    /// What its disk begins with, the topmost first.
    #[serde(default)]
    pub layers: Vec<String>,
    /// What becomes of its disk.
    #[serde(default)]
    pub keeping: Keeping,
    /// How many rooms there may be with it.
    #[serde(default)]
    pub quota: Quota,
    /// Whether it was made ahead.
    #[serde(default)]
    pub pool: Pooled,
}

/// What becomes of a room's disk when the room ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeping {
    /// It is in memory, and ends with the room.
    #[default]
    Memory,
    /// It is on a disk of the host, and the room can be started again.
    Disk,
}

/// How long a room lives, and what happens then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// How long at most.
    pub ttl: Option<Span>,
    /// How long with no program running and nobody connected.
    pub idle: Option<Span>,
    /// What happens then.
    pub then: Then,
}

/// What happens to a room whose time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It ends.
    #[default]
    Kill,
    /// It is frozen until somebody wants it again.
    Pause,
}

/// The tombstone of a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Seconds since 1970, for display.
    pub at: u64,
    /// What ended it.
    pub why: Why,
}

/// What ended a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Somebody stopped it.
    Stopped,
    /// Its time to live was over.
    Expired,
    /// Nobody had used it for as long as it was told to wait.
    Idle,
    /// Its shim, or its first process, went away without a word.
    Lost,
    /// It was one of many, and when they were built this was in the way.
    Unbuilt(String),
}

/// Whether a room can be talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its shim holds the lock.
    Alive,
    /// It ended, and this is how.
    Ended(End),
}

/// A room in the journal.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What was asked for.
    pub record: Record,
    /// Whether it lives.
    pub life: Life,
}

impl Record {
    /// A record of the form that this program writes, made now.
    pub fn new(id: String, name: String, spec: Spec, policy: Policy) -> Self {
        Self {
            version: VERSION,
            id,
            name,
            labels: BTreeMap::new(),
            made: now(),
            lifetime: Lifetime::default(),
            backend: String::new(),
            runtime: None,
            spec,
            policy,
            layers: Vec::new(),
            keeping: Keeping::default(),
            quota: Quota::default(),
            pool: Pooled::No,
        }
    }
}

/// What every record has, whatever its form.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A room at `dir`; nothing where none has got as far as a record; else what is wrong with it.
pub(super) fn look(dir: &Path) -> Result<Option<Listed>, String> {
    let text = match fs::read(dir.join(RECORD)) {
        Ok(text) => text,
        // Being born, or `unreadable` itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let versioned: Versioned =
        serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if versioned.version != VERSION {
        let version = versioned.version;
        return Err(format!("it has the form {version}, and this program knows {VERSION}"));
    }
    let record: Record = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let free = is_free(dir);
    let end = fs::read(dir.join(END)).ok();
    let end: Option<End> = end.and_then(|text| serde_json::from_slice(&text).ok());
    let life = match end {
        // Whoever holds the lock of a room that has ended is about to let go, or copies its disk.
        Some(end) => Life::Ended(end),
        None if free => Life::Ended(End { at: record.made, why: Why::Lost }),
        None => Life::Alive,
    };
    Ok(Some(Listed { record, life }))
}

/// Whether nobody holds the lock of the room at `dir`.
pub(super) fn is_free(dir: &Path) -> bool {
    match lock_of(dir) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockShared).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
