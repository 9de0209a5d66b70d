//! Copies the bytes of files, several at once.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender},
    },
};

use rustix::{
    fs::{SeekFrom, Stat, copy_file_range, seek, sendfile},
    io::Errno,
};

use super::{Failed, PartKind, about, failed};

/// How much of a file one thread copies before another may take the rest.
pub(super) const SHARE: u64 = 32 << 20;
/// How many files wait for a thread, each with its descriptors.
pub(super) const WAITING: usize = 64;

/// A file that is being copied. When the last share of it is there, it gets its attributes.
pub(super) struct Whole {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    pub(super) stat: Stat,
    pub(super) kind: PartKind,
    pub(super) common: Arc<Common>,
}

/// A part of a file, with descriptors of its own: positions are not shared.
pub(super) struct Share {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    pub(super) range: (u64, u64),
    pub(super) _whole: Arc<Whole>,
}

/// What all threads know.
#[derive(Default)]
pub(super) struct Common {
    pub(super) bytes: AtomicU64,
    failure: Mutex<Option<Failed>>,
}

impl Common {
    /// The first failure is the one that is told.
    pub(super) fn fail(&self, failed: Failed) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failed);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn failure(&self) -> Option<Failed> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let done = about::finish(self.from.as_fd(), self.to.as_fd(), &self.stat, self.kind);
        if let Err(failed) = done.map_err(failed("give a copy its attributes")) {
            self.common.fail(failed);
        }
    }
}

/// Hands `share` to whoever is free.
pub(super) fn queue(to: &SyncSender<Share>, share: Share) -> Result<(), Failed> {
    to.send(share).map_err(|_| Failed { action: "copy a file".to_owned(), errno: Errno::PIPE })
}

/// Copies what comes until nothing comes any more.
pub(super) fn work(shares: &Mutex<Receiver<Share>>, common: &Common) {
    loop {
        let next = shares.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(share) = next else { return };
        // After a failure the rest is only taken out of the way.
        if common.has_failed() {
            continue;
        }
        match copy(&share) {
            Ok(bytes) => {
                common.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(errno) => common.fail(failed("copy the bytes of a file")(errno)),
        }
    }
}

/// Copies the data of a range; holes stay holes.
fn copy(Share { from, to, range: (start, end), _whole: _ }: &Share) -> Result<u64, Errno> {
    let (mut at, mut bytes) = (*start, 0);
    while at < *end {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) if data < *end => data,
            Ok(_) | Err(Errno::NXIO) => return Ok(bytes),
            Err(errno) => return Err(errno),
        };
        let hole = seek(from, SeekFrom::Hole(data))?.min(*end);
        seek(from, SeekFrom::Start(data))?;
        seek(to, SeekFrom::Start(data))?;
        move_bytes(from, to, hole - data)?;
        bytes += hole - data;
        at = hole;
    }
    Ok(bytes)
}

/// Moves bytes from position to position without their coming here.
fn move_bytes(from: &OwnedFd, to: &OwnedFd, mut left: u64) -> Result<(), Errno> {
    let mut shared = true;
    while 0 < left {
        let most = usize::try_from(left.min(16 << 20)).unwrap_or(usize::MAX);
        // Where both are on one filesystem that can share blocks, it does.
        let moved = if shared {
            match copy_file_range(from, None, to, None, most) {
                Err(Errno::XDEV | Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => {
                    shared = false;
                    continue;
                }
                moved => moved?,
            }
        } else {
            sendfile(to, from, None, most)?
        };
        if moved == 0 {
            // It is shorter than it was: somebody else changes it.
            return Err(Errno::STALE);
        }
        left = left.saturating_sub(moved as u64);
    }
    Ok(())
}
