//! Rooms that ended without a word, and records that nobody can read.
//!
//! Whoever wants one room looks at that one; whoever wants all of them looks at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bulkhead_backends::crash;
use rustix::fs::{FlockOperation, flock};

use super::{
    Journal, JournalError, UNREADABLE,
    files::{lock_of, now, private_dir, remove_if_there, write_whole},
    layers,
    record::{END, End, Life, Listed, RECORD, Record, Why, look},
};

impl Journal {
    /// Gives a tombstone to every room whose shim is dead, and says which they were. Of those that
    /// died before they had a record, nothing was made and nothing remains.
    pub fn bury(&self) -> Result<Vec<Record>, JournalError> {
        let failed = |source| JournalError::System { action: "bury a room", source };
        self.forget_unborn().map_err(failed)?;
        let mut buried = Vec::new();
        for listed in self.list()? {
            if self.bury_one(&listed)?.is_some() {
                buried.push(listed.record);
            }
        }
        Ok(buried)
    }

    /// Gives a tombstone to a room whose shim is dead and that has none, and says what is on it.
    pub fn bury_one(&self, listed: &Listed) -> Result<Option<End>, JournalError> {
        let failed = |source| JournalError::System { action: "bury a room", source };
        let id = &listed.record.id;
        let dir = self.state.join(id);
        if listed.life == Life::Alive || dir.join(END).exists() {
            return Ok(None);
        }
        // Others may bury, start or forget the same room.
        let _turn = self.turn().map_err(failed)?;
        let seen = look(&dir).ok().flatten();
        if dir.join(END).exists() || seen.is_none_or(|it| it.life == Life::Alive) {
            return Ok(None);
        }
        let lost = End { at: now(), why: Why::Lost };
        write_whole(&dir, END, &lost).map_err(failed)?;
        crash::point();
        remove_if_there(&self.socket(id)).map_err(failed)?;
        Ok(Some(lost))
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
            match fs::rename(&path, &to) {
                // Somebody else did.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                renamed => renamed.map_err(failed)?,
            }
            moved.push(JournalError::Unreadable { moved: to, why });
        }
        Ok(moved)
    }

    /// Removes directories in which no record was written. Nobody is about to write one while the
    /// turn is ours; where it is not, there is a next time.
    fn forget_unborn(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.state) else { return Ok(()) };
        let dirs = entries.filter_map(Result::ok).map(|it| it.path());
        let unborn: Vec<PathBuf> = dirs.filter(|it| is_unborn(it)).collect();
        if unborn.is_empty() {
            return Ok(());
        }
        let turn = lock_of(&self.state)?;
        if flock(&turn, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        // Some may have got their record since.
        for dir in unborn.into_iter().filter(|it| is_unborn(it)) {
            layers::remove_tree(&dir)?;
        }
        Ok(())
    }
}

/// Whether `dir` is to be a room and has no record yet.
fn is_unborn(dir: &Path) -> bool {
    dir.is_dir() && dir.file_name() != Some(UNREADABLE.as_ref()) && !dir.join(RECORD).exists()
}
