//! What is written down about rooms before they exist, and after they ended.
//!
//! Invariant: a record is on the disk before anything of its room is made. A lock that is free
//! says that its shim is dead, whatever the record says.

mod names;
mod parked;
mod quota;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use bulkhead_backends::crash;
use bulkhead_policy::Policy;
use bulkhead_spec::{Span, Spec, escape};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use self::{parked::Pooled, quota::Quota};
use super::{
    admission::Busy,
    layers::{self, Layers},
};

/// The form of records that this program writes and reads.
const VERSION: u32 = 1;
const RECORD: &str = "room.json";
const END: &str = "end.json";
const LOCK: &str = "lock";
/// Where records go that this program cannot read.
const UNREADABLE: &str = "unreadable";

/// The rooms of one user, as a directory.
#[derive(Clone, Debug)]
pub struct Journal {
    state: PathBuf,
    /// Rooms that were made ahead, which nobody has yet.
    pool: PathBuf,
    /// Which living room has a name.
    names: PathBuf,
    runtime: PathBuf,
    pub(super) checkpoints: PathBuf,
    pub(super) layers: Layers,
}

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

/// The right to be the shim of a room: the lock is held as long as this lives.
#[derive(Debug)]
pub struct Claim {
    /// Where it is written down; a room that was made ahead moves once.
    dir: Mutex<PathBuf>,
    socket: PathBuf,
    /// Whether there was a room before, whose disk is there.
    again: bool,
    _lock: File,
}

/// The journal cannot be used as it is, or does not know the room.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No room has this name.
    #[error("there is no room `{}`", escape(.0))]
    Unknown(String),
    /// Several rooms could be meant.
    #[error("`{}` could be {}", escape(.text), .candidates.join(", "))]
    Ambiguous {
        /// What was said.
        text: String,
        /// The names of all that match.
        candidates: Vec<String>,
    },
    /// A living room has this name already.
    #[error("a room called `{}` exists already", escape(.0))]
    Taken(String),
    /// There are as many rooms as there may be.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A name that rooms cannot have.
    #[error(
        "`{}` cannot be the name of a room: letters, digits, `-`, `_` and `.`, at most 64",
        escape(.0)
    )]
    Name(String),
    /// What the room's disk is to begin with was removed.
    #[error("a layer that the room begins with is not there any more")]
    NoLayer,
    /// A record that this program cannot read. It was moved aside, and nothing was deleted.
    #[error("the record of a room could not be read and was moved to `{}`: {why}", .moved.display())]
    Unreadable {
        /// Where it is now.
        moved: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused something.
    #[error("could not {action} in the journal of rooms")]
    System {
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Journal {
    /// The journal below `state`, with sockets below `runtime`.
    pub fn new(state: &Path, runtime: &Path) -> Self {
        Self {
            state: state.join("rooms"),
            pool: state.join("pool"),
            names: state.join("names"),
            runtime: runtime.join("rooms"),
            checkpoints: state.join("checkpoints"),
            layers: Layers::new(state.join("layers")),
        }
    }

    /// Writes `record` down and takes the lock of its room, before anything of it is made.
    pub fn begin(&self, record: &Record) -> Result<Claim, JournalError> {
        if let Pooled::Parked { key, .. } = &record.pool {
            return self.park(record, key);
        }
        let claims = self.begin_all(std::slice::from_ref(record))?;
        let none = || io::Error::other("the room was not begun");
        let failed = |source| JournalError::System { action: "begin a room", source };
        claims.into_iter().next().ok_or_else(none).map_err(failed)
    }

    /// Begins the rooms of `records`, all of them or none.
    pub fn begin_all(&self, records: &[Record]) -> Result<Vec<Claim>, JournalError> {
        let failed = |source| JournalError::System { action: "begin a room", source };
        records.iter().try_for_each(|it| check_name(&it.name))?;
        private_dir(&self.state).map_err(failed)?;
        private_dir(&self.runtime).map_err(failed)?;
        // Two that want the same name at once take turns.
        let turn = self.turn().map_err(failed)?;
        self.check_free(records)?;
        // Whoever removes layers looks at records first, in the same turn.
        let layers: BTreeSet<&String> = records.iter().flat_map(|it| &it.layers).collect();
        if !layers.iter().all(|it| self.layers.path(it).is_dir()) {
            return Err(JournalError::NoLayer);
        }
        // A hundred files are on the disk sooner if they go there together.
        let sync = if records.len() == 1 { Sync::Each } else { Sync::Together };
        let mut claims = Vec::new();
        for record in records {
            match self.claim(&self.state, record, sync) {
                Ok(claim) => claims.push(claim),
                Err(error) => {
                    claims.iter().try_for_each(Claim::erase).map_err(failed)?;
                    return Err(failed(error));
                }
            }
        }
        let state = File::open(&self.state).map_err(failed)?;
        match sync {
            Sync::Each => state.sync_all().map_err(failed)?,
            Sync::Together => rustix::fs::syncfs(&state).map_err(|it| failed(it.into()))?,
        }
        records.iter().try_for_each(|it| self.give_name(it)).map_err(failed)?;
        drop(turn);
        Ok(claims)
    }

    /// Whether there may be rooms like these beside those that there are.
    fn check_free(&self, records: &[Record]) -> Result<(), JournalError> {
        if let Some(record) = records.iter().find(|it| self.named(&it.name).is_some()) {
            return Err(JournalError::Taken(record.name.clone()));
        }
        if !records.iter().any(|it| it.quota.counts(&it.labels)) {
            return Ok(());
        }
        let living = self.living()?;
        let mut beside: Vec<_> = living.iter().map(|it| &it.record.labels).collect();
        for record in records {
            record.quota.check(&record.labels, &beside)?;
            beside.push(&record.labels);
        }
        Ok(())
    }

    /// The record of a room to be, and its lock.
    fn claim(&self, parent: &Path, record: &Record, sync: Sync) -> io::Result<Claim> {
        let dir = parent.join(&record.id);
        // The room of a disk that was kept comes back to it.
        let again = record.keeping == Keeping::Disk && dir.join(RECORD).exists();
        if !again {
            DirBuilder::new().mode(0o700).create(&dir)?;
        }
        crash::point();
        let lock = lock_file(&dir)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        crash::point();
        match sync {
            Sync::Each => write_whole(&dir, RECORD, record)?,
            Sync::Together => write(&dir, RECORD, record, sync)?,
        }
        crash::point();
        remove_if_there(&dir.join(END))?;
        let socket = self.socket(&record.id);
        Ok(Claim { dir: Mutex::new(dir), socket, again, _lock: lock })
    }

    /// Where the shim of `id` listens.
    pub fn socket(&self, id: &str) -> PathBuf {
        self.runtime.join(format!("{id}.sock"))
    }

    /// Every room that the journal knows. A record that cannot be read is moved aside and told
    /// by [`Journal::quarantine`], not here.
    pub fn list(&self) -> Result<Vec<Listed>, JournalError> {
        let failed = |source| JournalError::System { action: "list rooms", source };
        let entries = match fs::read_dir(&self.state) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut rooms = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            if let Some(listed) = look(&entry.path()).ok().flatten() {
                rooms.push(listed);
            }
        }
        rooms.sort_by(|one, other| {
            (one.record.made, &one.record.id).cmp(&(other.record.made, &other.record.id))
        });
        Ok(rooms)
    }

    /// The room of exactly this id, whatever else there is. An id that could be a path is nobody's.
    pub fn room(&self, id: &str) -> Result<Option<Listed>, JournalError> {
        if check_name(id).is_err() {
            return Ok(None);
        }
        Ok(look(&self.state.join(id)).ok().flatten())
    }

    /// Those that can be talked to.
    pub fn living(&self) -> Result<Vec<Listed>, JournalError> {
        let alive = |it: &Listed| it.life == Life::Alive;
        Ok(self.list()?.into_iter().filter(alive).collect())
    }

    /// The room called `text`: its name or its id, or a beginning that only one room has. A living
    /// room comes before one that has ended.
    pub fn find(&self, text: &str) -> Result<Listed, JournalError> {
        if let Some(found) = self.named(text).or_else(|| self.with_id(text)) {
            return Ok(found);
        }
        let rooms = self.list()?;
        let (alive, ended): (Vec<_>, Vec<_>) =
            rooms.into_iter().partition(|it| it.life == Life::Alive);
        // Of those that have ended under one name, the last is meant.
        let ended: Vec<_> = ended.into_iter().rev().collect();
        for rooms in [&alive, &ended] {
            let exact = |it: &&Listed| it.record.name == text || it.record.id == text;
            if let Some(found) = rooms.iter().find(exact) {
                return Ok(found.clone());
            }
        }
        let begins = |it: &&Listed| {
            !text.is_empty()
                && (it.record.name.starts_with(text) || it.record.id.starts_with(text))
        };
        let mut found: Vec<_> = alive.iter().chain(&ended).filter(begins).collect();
        match (found.pop(), found.as_slice()) {
            (Some(found), []) => Ok(found.clone()),
            (None, _) => Err(JournalError::Unknown(text.to_owned())),
            (Some(last), others) => {
                let all = others.iter().copied().chain([last]);
                let mut candidates: Vec<_> = all.map(|it| it.record.name.clone()).collect();
                candidates.sort();
                Err(JournalError::Ambiguous { text: text.to_owned(), candidates })
            }
        }
    }

    /// Forgets a room that has ended.
    pub fn forget(&self, id: &str) -> Result<(), JournalError> {
        let failed = |source| JournalError::System { action: "forget a room", source };
        let _turn = self.turn().map_err(failed)?;
        remove_if_there(&self.socket(id)).map_err(failed)?;
        crash::point();
        if let Ok(Some(listed)) = look(&self.state.join(id)) {
            self.take_name(&listed.record).map_err(failed)?;
        }
        erase(&self.state.join(id)).map_err(failed)
    }

    /// Gives a tombstone to every room whose shim is dead, and says which they were. Of those that
    /// died before they had a record, nothing was made and nothing remains.
    pub fn bury(&self) -> Result<Vec<Record>, JournalError> {
        let failed = |source| JournalError::System { action: "bury a room", source };
        self.forget_unborn().map_err(failed)?;
        let mut buried = Vec::new();
        let untold = |it: &Listed| {
            it.life != Life::Alive && !self.state.join(&it.record.id).join(END).exists()
        };
        if !self.list()?.iter().any(untold) {
            return Ok(buried);
        }
        // Others may bury or forget the same rooms.
        let _turn = self.turn().map_err(failed)?;
        for listed in self.list()?.into_iter().filter(untold) {
            let dir = self.state.join(&listed.record.id);
            let lost = End { at: now(), why: Why::Lost };
            write_whole(&dir, END, &lost).map_err(failed)?;
            crash::point();
            remove_if_there(&self.socket(&listed.record.id)).map_err(failed)?;
            buried.push(listed.record);
        }
        Ok(buried)
    }

    /// Moves records aside that cannot be read, and says what is wrong with each. Nothing that is
    /// not understood is deleted.
    pub fn quarantine(&self) -> Result<Vec<JournalError>, JournalError> {
        let failed = |source| JournalError::System { action: "look at rooms", source };
        let Ok(entries) = fs::read_dir(&self.state) else { return Ok(Vec::new()) };
        let mut moved = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (path, name) = (entry.path(), entry.file_name());
            if name == UNREADABLE || !entry.file_type().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            let Err(why) = look(&path) else { continue };
            let aside = self.state.join(UNREADABLE);
            private_dir(&aside).map_err(failed)?;
            let to = aside.join(format!("{}-{}", now(), name.display()));
            fs::rename(&path, &to).map_err(failed)?;
            moved.push(JournalError::Unreadable { moved: to, why });
        }
        Ok(moved)
    }

    /// Removes directories in which no record was written. Nobody is about to write one while the
    /// turn is ours; where it is not, there is a next time.
    fn forget_unborn(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.state) else { return Ok(()) };
        let unborn = |dir: &PathBuf| {
            dir.is_dir()
                && dir.file_name() != Some(UNREADABLE.as_ref())
                && !dir.join(RECORD).exists()
        };
        let dirs = entries.filter_map(Result::ok).map(|it| it.path());
        let unborn: Vec<_> = dirs.filter(unborn).collect();
        if unborn.is_empty() {
            return Ok(());
        }
        let turn = lock_file(&self.state)?;
        if flock(&turn, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        // Some may have got their record since.
        for dir in unborn.into_iter().filter(|it| !it.join(RECORD).exists()) {
            remove_tree_if_there(&dir)?;
        }
        Ok(())
    }

    /// What is written down of the room `id`, and what it keeps.
    pub(super) fn room_dir(&self, id: &str) -> PathBuf {
        self.state.join(id)
    }

    /// Whether records were moved aside that nobody could read.
    pub(super) fn has_unreadable(&self) -> bool {
        fs::read_dir(self.state.join(UNREADABLE)).is_ok_and(|mut it| it.next().is_some())
    }

    pub(super) fn turn(&self) -> io::Result<File> {
        private_dir(&self.state)?;
        let turn = lock_file(&self.state)?;
        flock(&turn, FlockOperation::LockExclusive)?;
        Ok(turn)
    }
}

impl Claim {
    /// Where to listen.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A place for what the room keeps on disk.
    pub fn dir(&self) -> PathBuf {
        self.dir.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes down what is different about the room.
    pub fn rewrite(&self, record: &Record) -> io::Result<()> {
        write_whole(&self.dir(), RECORD, record)
    }

    /// Writes down how the room ended.
    pub fn end(&self, why: Why) -> io::Result<()> {
        remove_if_there(&self.socket)?;
        crash::point();
        write_whole(&self.dir(), END, &End { at: now(), why })
    }

    /// Leaves nothing of a room that nobody ever had. One that was there before has its disk still.
    pub fn erase(&self) -> io::Result<()> {
        if self.again {
            return self.end(Why::Stopped);
        }
        remove_if_there(&self.socket)?;
        erase(&self.dir())
    }
}

/// What every record has, whatever its form.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A room at `dir`; nothing where none has got as far as a record; else what is wrong with it.
fn look(dir: &Path) -> Result<Option<Listed>, String> {
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
    let free = lock_file(dir)
        .and_then(|lock| Ok(flock(&lock, FlockOperation::NonBlockingLockShared)?))
        .is_ok();
    let life = if free {
        let end = fs::read(dir.join(END)).ok();
        let end = end.and_then(|text| serde_json::from_slice(&text).ok());
        Life::Ended(end.unwrap_or(End { at: record.made, why: Why::Lost }))
    } else {
        Life::Alive
    };
    Ok(Some(Listed { record, life }))
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

pub(super) fn check_name(name: &str) -> Result<(), JournalError> {
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let first = name.chars().next().is_some_and(|it| it.is_ascii_alphanumeric());
    if first && name.len() <= 64 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(JournalError::Name(name.to_owned()))
}

pub(super) fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn lock_file(dir: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOCK))
}

/// When what is written must be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// At once.
    Each,
    /// When all of it is written; somebody else sees to it.
    Together,
}

/// Either the whole file is there afterwards, or what was there before.
pub(super) fn write_whole<T: Serialize>(dir: &Path, name: &str, what: &T) -> io::Result<()> {
    write(dir, name, what, Sync::Each)?;
    File::open(dir)?.sync_all()
}

fn write<T: Serialize>(dir: &Path, name: &str, what: &T, sync: Sync) -> io::Result<()> {
    let fresh = dir.join(format!("{name}.new"));
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(what)?)?;
    if sync == Sync::Each {
        file.sync_all()?;
    }
    crash::point();
    fs::rename(&fresh, dir.join(name))
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_absent(fs::remove_file(path))
}

/// Removes the directory of a room: its record first, so that nobody finds half of it.
fn erase(dir: &Path) -> io::Result<()> {
    remove_if_there(&dir.join(RECORD))?;
    crash::point();
    remove_tree_if_there(dir)
}

fn remove_tree_if_there(path: &Path) -> io::Result<()> {
    // Whoever lists rooms opens locks, and may make one again while its directory goes.
    for _ in 0..100 {
        // What rooms keep may have permissions that forbid to look.
        match layers::remove_tree(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            removed => return removed,
        }
    }
    layers::remove_tree(path)
}

fn unless_absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
