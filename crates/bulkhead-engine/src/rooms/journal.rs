//! What is written down about rooms before they exist, and after they ended.
//!
//! Invariant: a record is written before anything of its room is made, and on the disk before whoever
//! wants the room hears of it. A lock that is free says that its shim is dead, whatever the record says.

mod error;
mod files;
mod lost;
mod names;
mod parked;
mod quota;
mod record;
mod wishes;

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bulkhead_backends::crash;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

pub(super) use self::files::{now, private_dir, remove_if_there, write_whole};
pub use self::{
    error::JournalError,
    parked::Pooled,
    quota::Quota,
    record::{End, Keeping, Life, Lifetime, Listed, Record, Then, Why},
    wishes::Wish,
};
use self::{
    files::{Sync, erase, hold_alone, lock_of, write},
    record::{END, RECORD, is_free, look},
};
use super::{
    admission::Busy,
    layers::{self, Layers},
};

/// Where records go that this program cannot read.
const UNREADABLE: &str = "unreadable";
/// When it is worth another try to hold a room that somebody else holds.
const RETRY: Duration = Duration::from_secs(1);

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

/// The right to be the shim of a room: the lock is held as long as this lives.
#[derive(Debug)]
pub struct Claim {
    /// Where it is written down; a room that was made ahead moves once.
    dir: Mutex<PathBuf>,
    socket: PathBuf,
    /// Whether there was a room before, whose disk is there.
    again: bool,
    lock: File,
}

/// Rooms that are begun one after another, while nobody else begins any.
#[derive(Debug)]
pub struct Series<'a> {
    journal: &'a Journal,
    sync: Sync,
    _turn: File,
}

impl Series<'_> {
    /// Writes `record`, one of those, down and takes the lock of its room, before anything of it is made.
    pub fn begin(&self, record: &Record) -> Result<Claim, JournalError> {
        let Self { journal, sync, .. } = self;
        let claimed = journal.claim(&journal.state, record, *sync);
        let claim = claimed.map_err(|error| {
            let held = error.kind() == io::ErrorKind::WouldBlock;
            if held { in_use(record) } else { not_begun(error) }
        })?;
        if let Err(error) = self.give_name(record) {
            claim.erase().map_err(not_begun)?;
            return Err(not_begun(error));
        }
        Ok(claim)
    }

    fn give_name(&self, record: &Record) -> io::Result<()> {
        if self.sync == Sync::Each {
            File::open(&self.journal.state)?.sync_all()?;
        }
        self.journal.give_name(record)
    }
}

fn not_begun(source: io::Error) -> JournalError {
    JournalError::System { action: "begin a room", source }
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
        self.series(std::slice::from_ref(record))?.begin(record)
    }

    /// Whether there may be rooms of `records`, which are begun one after another then. Those of many are on
    /// the disk when they have [settled](Self::settle).
    pub fn series(&self, records: &[Record]) -> Result<Series<'_>, JournalError> {
        records.iter().try_for_each(|it| check_name(&it.name))?;
        private_dir(&self.state).map_err(not_begun)?;
        private_dir(&self.runtime).map_err(not_begun)?;
        private_dir(&self.names).map_err(not_begun)?;
        // Two that want the same name at once take turns.
        let turn = self.turn().map_err(not_begun)?;
        self.check_free(records)?;
        // Whoever removes layers looks at records first, in the same turn.
        let layers: BTreeSet<&String> = records.iter().flat_map(|it| &it.layers).collect();
        if !layers.iter().all(|it| self.layers.path(it).is_dir()) {
            return Err(JournalError::NoLayer);
        }
        // A hundred files are on the disk sooner if they go there together, while rooms are made.
        let sync = if records.len() == 1 { Sync::Each } else { Sync::Together };
        Ok(Series { journal: self, sync, _turn: turn })
    }

    /// Waits until everything that was written down is on the disk.
    pub fn settle(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.state)?)?)
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
        let lock = lock_of(&dir)?;
        if !hold_alone(&lock)? {
            return Err(Errno::WOULDBLOCK.into());
        }
        crash::point();
        match sync {
            Sync::Each => write_whole(&dir, RECORD, record)?,
            Sync::Together => write(&dir, RECORD, record, sync)?,
        }
        crash::point();
        if again {
            remove_if_there(&dir.join(END))?;
        }
        let socket = self.socket(&record.id);
        Ok(Claim { dir: Mutex::new(dir), socket, again, lock })
    }

    /// Keeps the room `id`, which has ended, from being started or forgotten while the file is held.
    pub(super) fn hold_ended(&self, id: &str) -> Result<File, JournalError> {
        let failed = |source| JournalError::System { action: "hold a room", source };
        let _turn = self.turn().map_err(failed)?;
        let dir = self.state.join(id);
        let listed = look(&dir).ok().flatten().ok_or(JournalError::Unknown(id.to_owned()))?;
        if !listed.record.layers.iter().all(|it| self.layers.path(it).is_dir()) {
            return Err(JournalError::NoLayer);
        }
        let lock = lock_of(&dir).map_err(failed)?;
        if hold_alone(&lock).map_err(failed)? { Ok(lock) } else { Err(in_use(&listed.record)) }
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
        if let Some(found) = self.called(text) {
            return Ok(found);
        }
        let rooms = self.list()?;
        let (alive, ended): (Vec<_>, Vec<_>) =
            rooms.into_iter().partition(|it| it.life == Life::Alive);
        // Of those that have ended under one name, the last is meant.
        let ended: Vec<_> = ended.into_iter().rev().collect();
        for rooms in [&alive, &ended] {
            if let Some(found) = rooms.iter().find(|it| it.record.name == text) {
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
        let dir = self.state.join(id);
        let listed = look(&dir).ok().flatten();
        if let Some(listed) = listed.as_ref().filter(|_| self.is_held(id)) {
            return Err(in_use(&listed.record));
        }
        remove_if_there(&self.socket(id)).map_err(failed)?;
        crash::point();
        listed.map_or(Ok(()), |it| self.take_name(&it.record)).map_err(failed)?;
        erase(&dir).map_err(failed)
    }

    /// Whether somebody holds the room `id`: its shim, or whoever copies its disk.
    pub(super) fn is_held(&self, id: &str) -> bool {
        !is_free(&self.state.join(id))
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
        let turn = lock_of(&self.state)?;
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
        write_whole(&self.dir(), END, &End { at: now(), why })?;
        // Whoever hears of the end by this process hanging up may start the room again.
        Ok(flock(&self.lock, FlockOperation::Unlock)?)
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

/// Somebody holds the lock of a room that has ended.
fn in_use(record: &Record) -> JournalError {
    let why = format!("somebody else uses the room `{}`", record.name);
    JournalError::Busy(Busy { why, retry: RETRY })
}

pub(super) fn check_name(name: &str) -> Result<(), JournalError> {
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let first = name.chars().next().is_some_and(|it| it.is_ascii_alphanumeric());
    if first && name.len() <= 64 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(JournalError::Name(name.to_owned()))
}
