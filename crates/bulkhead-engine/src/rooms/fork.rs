//! Many rooms at once.
//!
//! One process finds out about the host and begins all rooms together, then copies itself into one
//! shim for each: what a shim costs is the copy, not a new program that finds out all over again.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::{
    admission::Admission,
    client::Client,
    journal::{Journal, Record},
    launch::{LaunchError, shims},
};

/// Makes the rooms of `records`, which are alike but for their names, each in the hands of a shim
/// of its own.
///
/// # Guarantees
/// If one cannot be made, none is left.
pub async fn fork(
    program: &Path,
    journal: &Journal,
    records: &[Record],
    admission: &Admission,
) -> Result<(), LaunchError> {
    admission.check_for(records.len())?;
    let answers = shims(program, &records).await?;
    let ready = |it: &&Value| it.get("ready").is_some();
    if answers.iter().filter(ready).count() == records.len() {
        return Ok(());
    }
    for record in records {
        let client = Client::new(journal.socket(&record.id));
        if client.end(Duration::ZERO).await.is_ok()
            && let Err(error) = journal.forget(&record.id)
        {
            tracing::warn!(%error, room = record.id, "a room of a fork that failed is left");
        }
    }
    let refused = answers.into_iter().find(|it| it.get("error").is_some());
    Err(refused.map_or_else(LaunchError::silent, LaunchError::Refused))
}
