//! How many rooms are to wait, for those who make new ones when some were handed out.
//!
//! Invariant: whoever parks rooms for a wish holds the lock of the pool and looks at the wish after
//! that. So when a wish was taken back, and the lock was free once, no more come.

use std::{
    fs::{self, File},
    io,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Journal, private_dir, remove_if_there, write_whole};

/// Where a wish is, beside the rooms that wait for it.
pub(super) const WISH: &str = "wish.json";

/// Rooms that are to wait under one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// What was asked for, whatever it came to.
    pub slot: String,
    /// How many.
    pub size: u32,
}

impl Journal {
    /// Waits until nobody else parks rooms for a wish, for as long as the file is held.
    pub(in crate::rooms) fn refill_lock(&self) -> io::Result<File> {
        private_dir(&self.pool)?;
        let lock = File::open(&self.pool)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    /// From now on so many are to wait under `key`.
    pub(in crate::rooms) fn wish_for(&self, key: &str, wish: &Wish) -> io::Result<()> {
        let dir = self.pool.join(key);
        // Whoever looks at the pool removes what is empty, in the same turn.
        let _turn = self.turn()?;
        private_dir(&dir)?;
        write_whole(&dir, WISH, wish)
    }

    /// How many are to wait under `key`, if anybody said so.
    pub fn wish(&self, key: &str) -> Option<Wish> {
        let text = fs::read(self.pool.join(key).join(WISH)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Takes wishes back: those for which `which` is true of their key and themselves. Nobody parks
    /// a room for one of them afterwards.
    pub(in crate::rooms) fn withdraw(
        &self,
        which: impl Fn(&str, &Wish) -> bool,
    ) -> io::Result<()> {
        let mut some = false;
        for entry in fs::read_dir(&self.pool).into_iter().flatten() {
            let Ok(key) = entry?.file_name().into_string() else { continue };
            if self.wish(&key).is_some_and(|it| which(&key, &it)) {
                remove_if_there(&self.pool.join(key).join(WISH))?;
                some = true;
            }
        }
        if some {
            self.refill_lock()?;
        }
        if self.pool.is_dir() { self.tidy_pool() } else { Ok(()) }
    }
}
