//! Disks that outlive their rooms.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::PathBuf,
};

use bulkhead_policy::KeptState;
use rustix::fs::{Gid, Uid};

use super::{journal::Journal, layers::remove_tree};

/// Where a room's files are, in its directory of the journal.
const DISK: &str = "disk";
/// Says that a room has been there.
const USED: &str = "disk.used";
/// Who owns what root's rooms keep: nobody, so that nothing of it is root's.
const NOBODY: u32 = 199_999;

impl Journal {
    /// Where the disk of the room `id` is kept, made if it is not there.
    pub(super) fn kept_at(&self, id: &str) -> io::Result<(PathBuf, KeptState)> {
        let room = self.room_dir(id);
        let dir = room.join(DISK);
        let used = room.join(USED).exists();
        if !used {
            // Of a room that was begun and never stood.
            remove_tree(&dir)?;
        }
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) if rustix::process::geteuid().is_root() => {
                let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
                rustix::fs::chown(&dir, Some(uid), Some(gid))?;
            }
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok((dir, if used { KeptState::Used } else { KeptState::New }))
    }

    /// Notes that a room has been on the disk of `id`. Whoever writes there does so afterwards, also
    /// if the host loses its power.
    pub(super) fn mark_used(&self, id: &str) -> io::Result<()> {
        let room = self.room_dir(id);
        if room.join(USED).exists() {
            return Ok(());
        }
        File::create(room.join(USED))?.sync_all()?;
        File::open(&room)?.sync_all()
    }
}
