//! Rooms that were made ahead and wait for somebody to want them.
//!
//! They are written down apart from the others, under the key by which they are found. Whoever gets
//! one moves its directory to the others, in turn: that it has moved is what says that it was given
//! out. Only its own shim moves it, and a shim gives its room out once, so that nobody gets the same
//! room as another, whoever is killed when.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::PoisonError,
};

use bulkhead_backends::crash;
use serde::{Deserialize, Serialize};

use super::{
    Claim, Journal, JournalError, Life, Listed, RECORD, Record, Sync, check_name, layers, look,
    private_dir, wishes::WISH,
};

/// What was written down of a room while it was parked, once somebody has it.
const PARKED: &str = "parked.json";
/// What is to be its record then: empty until somebody wants it.
const HANDED: &str = "handed.json";

/// Whether a room was made before somebody wanted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooled {
    /// It was made for whoever has it.
    #[default]
    No,
    /// It waits.
    Parked {
        /// What was asked for, so that it is known what replaces it.
        slot: String,
        /// What that came to: rules, program and all.
        key: String,
    },
    /// It waited, and then somebody wanted it.
    Taken {
        /// Since when it had been there, in seconds since 1970.
        made: u64,
    },
}

impl Journal {
    /// Writes down a room that is to be parked, and takes its lock.
    pub(super) fn park(&self, record: &Record, key: &str) -> Result<Claim, JournalError> {
        let failed = |source| JournalError::System { action: "park a room", source };
        let park = || -> io::Result<Claim> {
            let dir = self.pool.join(key);
            private_dir(&self.runtime)?;
            // Whoever removes what is empty does it in turn.
            let _turn = self.turn()?;
            private_dir(&dir)?;
            let claim = self.claim(&dir, record, Sync::Each)?;
            // A file takes longer to make than to fill, and whoever takes the room waits.
            File::create_new(claim.dir().join(HANDED))?;
            File::open(&dir)?.sync_all()?;
            Ok(claim)
        };
        park().map_err(failed)
    }

    /// Rooms that wait under `key`, by their ids, as far as a look at their names can tell.
    pub fn waiting(&self, key: &str) -> Vec<String> {
        let entries = fs::read_dir(self.pool.join(key)).into_iter().flatten().flatten();
        let names = entries.filter_map(|it| it.file_name().into_string().ok());
        names.filter(|it| !it.starts_with(WISH)).collect()
    }

    /// Every room that waits. What is left of those that were killed is removed.
    pub fn parked(&self) -> Result<Vec<Listed>, JournalError> {
        let failed = |source| JournalError::System { action: "list parked rooms", source };
        if !self.pool.exists() {
            return Ok(Vec::new());
        }
        private_dir(&self.state).map_err(failed)?;
        // One that is being written down has no lock yet, and is no leftover.
        let turn = self.turn().map_err(failed)?;
        let mut waiting = Vec::new();
        for key in fs::read_dir(&self.pool).map_err(failed)? {
            let key = key.map_err(failed)?.path();
            for dir in fs::read_dir(&key).map_err(failed)? {
                let dir = dir.map_err(failed)?.path();
                if !dir.is_dir() {
                    continue;
                }
                match look(&dir) {
                    Ok(Some(listed)) if listed.life == Life::Alive => waiting.push(listed),
                    Ok(_) => self.clear(&dir).map_err(failed)?,
                    // Written by another version, whose shim may well live.
                    Err(_) => {}
                }
            }
            remove_empty(&key).map_err(failed)?;
        }
        drop(turn);
        waiting.sort_by(|one, other| {
            (one.record.made, &one.record.id).cmp(&(other.record.made, &other.record.id))
        });
        Ok(waiting)
    }

    /// Removes what nobody waits in any more.
    pub(in crate::rooms) fn tidy_pool(&self) -> io::Result<()> {
        let _turn = self.turn()?;
        for key in fs::read_dir(&self.pool).into_iter().flatten().flatten() {
            remove_empty(&key.path())?;
        }
        Ok(())
    }

    fn clear(&self, dir: &Path) -> io::Result<()> {
        if let Some(id) = dir.file_name().and_then(|it| it.to_str()) {
            super::remove_if_there(&self.socket(id))?;
        }
        layers::remove_tree(dir)
    }
}

/// Removes the place of a key where nobody waits and that nobody wishes for, in turn.
fn remove_empty(key: &Path) -> io::Result<()> {
    // Whoever was writing one down was killed.
    super::remove_if_there(&key.join(format!("{WISH}.new")))?;
    // Only if it is empty.
    fs::remove_dir(key).unwrap_or_default();
    Ok(())
}

/// Writes a file that is there and, but for a failure, empty. Who has one emptied that is so already
/// waits on ext4, which takes it for one that is written anew and puts that on the disk when it is closed.
fn fill(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    if file.metadata()?.len() != 0 {
        file.set_len(0)?;
    }
    file.write_all(content)
}

impl Claim {
    /// Makes a parked room one of the others, as `handed` says. It is the shim that says so, once.
    ///
    /// This is not synced: what it says is lost only with the host, and then the room is, too.
    pub fn hand_out(&self, journal: &Journal, handed: &Record) -> Result<(), JournalError> {
        let failed = |source| JournalError::System { action: "hand out a room", source };
        check_name(&handed.name)?;
        let turn = journal.turn().map_err(failed)?;
        journal.check_free(std::slice::from_ref(handed))?;
        let move_over = || -> io::Result<()> {
            let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = dir.join(HANDED);
            fill(&fresh, &serde_json::to_vec(handed)?)?;
            // What is replaced would be taken off the disk, and what replaces it written, while
            // somebody waits. A room that is killed between the two has no record, and is cleared.
            let (record, parked) = (dir.join(RECORD), dir.join(PARKED));
            fs::rename(&record, &parked)?;
            crash::point();
            if let Err(error) = fs::rename(&fresh, &record) {
                fs::rename(&parked, &record)?;
                return Err(error);
            }
            crash::point();
            let to = journal.state.join(&handed.id);
            fs::rename(&*dir, &to)?;
            *dir = to;
            crash::point();
            private_dir(&journal.names)?;
            journal.give_name(handed)
        };
        move_over().map_err(failed)?;
        drop(turn);
        Ok(())
    }
}
