//! The disk of a room that has ended, copied where it was kept.
//!
//! Whoever copies sees a disk as the room did: its owners, its layers, what it made unreadable for
//! itself. So there is a sandbox again for as long as the copy takes, in which nothing runs and from
//! which nothing is reached, in the hands of a process of its own. The room stays as it is: ended.

use std::path::{Path, PathBuf};

use bulkhead_backends::{Copied, Extent};
use bulkhead_spec::{Egress, Network};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    journal::{Journal, JournalError, Record},
    launch::{Heard, LaunchError, shims},
    shim::copier,
};
use crate::{Engine, RunError};

/// What a process is told that is to copy the disk of a room that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct CopyWanted {
    /// An empty directory, for the copy.
    pub copy: PathBuf,
    /// The room.
    pub of: Box<Record>,
}

/// What it says when that is done.
#[derive(Debug, Serialize, Deserialize)]
pub struct CopyDone {
    /// Bytes of files.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// What of the disk that is.
    pub extent: Extent,
    /// What built the sandbox.
    pub backend: String,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum NotCopied {
    /// The journal cannot be used so.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The sandbox did not come to be, or the disk could not be read.
    #[error(transparent)]
    Room(#[from] RunError),
}

/// Copies the disk of a room that has ended, and was kept. Nobody starts the room meanwhile.
///
/// # Cancellation
/// The sandbox ends; what was copied is of no use.
pub async fn copy_ended(
    engine: &Engine,
    journal: &Journal,
    CopyWanted { copy, of: record }: &CopyWanted,
) -> Result<CopyDone, NotCopied> {
    let _alone = journal.hold_ended(&record.id)?;
    let disk = journal.disk_of(record)?;
    let mut spec = record.spec.clone();
    // Nothing runs in it, so it needs no way out, and no name that somebody else may have by now.
    (spec.network, spec.egress) = (Network::None, Egress::default());
    let room = engine.open_on(&record.id, spec, disk).await?;
    let copied = async {
        let sandbox = room.sandbox().await?;
        Ok::<_, RunError>(copier(&*sandbox, room.backend())?.copy(copy).await?)
    };
    let copied = copied.await;
    room.destroy().await?;
    let Copied { bytes, files, extent } = copied?;
    // Whoever saw the room before it was held may have forgotten it, and its disk, meanwhile.
    if journal.room(&record.id)?.is_none() {
        return Err(JournalError::Unknown(record.name.clone()).into());
    }
    let backend = room.backend().to_owned();
    Ok(CopyDone { bytes, files, extent, backend })
}

/// Has `program` (Bulkhead itself) copy the disk of the room of `record` into `layer`.
pub(super) async fn copied_by(
    program: &Path,
    record: &Record,
    layer: &Path,
) -> Result<CopyDone, LaunchError> {
    let wanted = CopyWanted { copy: layer.to_owned(), of: Box::new(record.clone()) };
    let answer = shims(program, &wanted, Heard::All).await?.into_iter().next();
    let answer: Value = answer.ok_or_else(LaunchError::silent)?;
    if answer.get("error").is_some() {
        return Err(LaunchError::Refused(answer));
    }
    serde_json::from_value(answer).map_err(|_| LaunchError::silent())
}
