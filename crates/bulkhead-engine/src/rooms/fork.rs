//! Many rooms at once.
//!
//! One process finds out about the host and begins all rooms together, then copies itself into one
//! shim for each: what a shim costs is the copy, not a new program that finds out all over again.

use std::{path::Path, time::Duration};

use bulkhead_policy::Disk;
use serde::{Deserialize, Serialize};

use super::{
    admission::Admission,
    client::Client,
    journal::{Journal, JournalError, Keeping, Record},
    launch::{Heard, LaunchError, shims},
};

/// Rooms that are the same but for who they are: told once, for a hundred records take longer to
/// read than a room takes to make.
#[derive(Debug, Serialize, Deserialize)]
pub struct Alike {
    like: Record,
    /// Their ids and names.
    who: Vec<(String, String)>,
}

impl Alike {
    /// `records`, each with those after it that are like it.
    fn gathered(records: &[Record]) -> serde_json::Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        let mut last = Vec::new();
        for record in records {
            let who = (record.id.clone(), record.name.clone());
            let like = Record { id: String::new(), name: String::new(), ..record.clone() };
            let text = serde_json::to_vec(&like)?;
            match all.last_mut().filter(|_| text == last) {
                Some(alike) => alike.who.push(who),
                None => all.push(Self { like, who: vec![who] }),
            }
            last = text;
        }
        Ok(all)
    }

    /// The record of each.
    pub fn records(self) -> impl Iterator<Item = Record> {
        let Self { like, who } = self;
        who.into_iter().map(move |(id, name)| Record { id, name, ..like.clone() })
    }
}

impl Journal {
    /// What the disk of `record` begins with, wherever its changes go.
    pub fn beginning_of(&self, record: &Record) -> Result<Disk, JournalError> {
        self.disk_of(&Record { keeping: Keeping::Memory, ..record.clone() })
    }
}

/// Makes the rooms of `records`, whose disks begin alike, each in the hands of a shim of its own.
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
    let rooms = Alike::gathered(records).map_err(|error| LaunchError::System(error.into()))?;
    // Each room says that it is there, and whoever began them all that they are on record.
    let answers = shims(program, &rooms, Heard::From(records.len() + 1)).await?;
    let said = |what: &str| answers.iter().filter(|it| it.get(what).is_some()).count();
    if said("ready") == records.len() && said("settled") == 1 {
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

#[cfg(test)]
mod tests {
    use bulkhead_policy::Policy;
    use bulkhead_spec::Spec;

    use super::{Alike, Record};

    #[test]
    fn what_is_told_once_is_heard_by_each() {
        let record = |id: &str| {
            Record::new(id.to_owned(), format!("name-{id}"), Spec::default(), Policy::default())
        };
        let mut records = vec![record("a"), record("b"), record("c"), record("d")];
        records[2].labels.insert("key".to_owned(), "value".to_owned());
        let gathered = Alike::gathered(&records).unwrap();
        assert_eq!(gathered.len(), 3);
        let text = serde_json::to_string(&gathered).unwrap();
        let heard: Vec<Alike> = serde_json::from_str(&text).unwrap();
        let heard: Vec<Record> = heard.into_iter().flat_map(Alike::records).collect();
        let text = |it: &[Record]| serde_json::to_value(it).unwrap();
        assert_eq!(text(&heard), text(&records));
    }
}
