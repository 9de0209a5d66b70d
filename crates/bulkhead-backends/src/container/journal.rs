//! What this Bulkhead has asked daemons to make.
//!
//! Before a container is made, a record of it is on the disk, locked by whoever watches over the
//! container. The lock ends with its process, however that ends; so a record whose lock is free is
//! of a container that nobody watches over, and only those are swept.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// How old a record must be that was never finished before it is taken for left behind.
const UNFINISHED: Duration = Duration::from_mins(1);
/// The most that is read of a record.
const MOST: u64 = 64 << 10;

/// The records of one user.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    dir: PathBuf,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The sandbox.
    pub(super) id: String,
    /// The daemon that was asked.
    pub(super) daemon: String,
    /// What was mounted for it on this host, if anything.
    pub(super) stage: Option<PathBuf>,
    /// What was written for it on this host, if anything.
    #[serde(default)]
    pub(super) plate: Option<PathBuf>,
}

/// A record, locked by us. Dropped, it stays for a sweep; [`Record::close`] removes it.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    _lock: File,
}

impl Journal {
    pub(super) fn new(state: &Path) -> Self {
        Self { dir: state.join("containers") }
    }

    /// By which the containers of these records are known among those of others.
    pub(super) fn instance(&self) -> io::Result<String> {
        let path = self.dir.join(".instance");
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        self.make_dir()?;
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("{:032x}", u128::from_ne_bytes(bytes));
        let draft = self.dir.join(format!(".instance-{name}"));
        std::fs::write(&draft, &name)?;
        // Two may come at once; the first one names both.
        let linked = std::fs::hard_link(&draft, &path);
        std::fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::read_to_string(&path)
            }
            linked => linked.map(|()| name),
        }
    }

    fn make_dir(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    /// Writes `entry` down, on the disk when this returns.
    pub(super) fn write(&self, entry: &Entry) -> io::Result<Record> {
        let draft = self.dir.join(format!(".{}", entry.id));
        let create =
            || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir()?;
                create()?
            }
            file => file?,
        };
        // Locked before it has its name, so that nobody finds it unlocked.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.sync_all()?;
        let path = self.dir.join(&entry.id);
        std::fs::rename(&draft, &path)?;
        File::open(&self.dir)?.sync_all()?;
        Ok(Record { path, _lock: file })
    }

    /// Records that nobody holds, locked by us until they are dropped.
    pub(super) fn abandoned(&self) -> io::Result<Vec<(Entry, Record)>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let draft = entry.file_name().as_encoded_bytes().starts_with(b".");
            if draft {
                remove_draft(&path, entry.metadata().ok().and_then(|it| it.modified().ok()))?;
                continue;
            }
            let Some(mut lock) = locked(&path)? else { continue };
            let mut content = Vec::new();
            (&mut lock).take(MOST).read_to_end(&mut content)?;
            if let Ok(entry) = serde_json::from_slice(&content) {
                found.push((entry, Record { path, _lock: lock }));
            }
        }
        Ok(found)
    }
}

/// Removes a draft that nobody finishes any more. One is finished within milliseconds.
fn remove_draft(path: &Path, made: Option<std::time::SystemTime>) -> io::Result<()> {
    let age = made.and_then(|it| it.elapsed().ok()).unwrap_or_default();
    if path.ends_with(".instance") || age < UNFINISHED {
        return Ok(());
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The file, if it is there and nobody else has it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Whoever had it may have removed it meanwhile.
        Ok(()) => Ok(path.exists().then_some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl Record {
    /// Removes the record: nothing is left of what it speaks of.
    pub(super) fn close(self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Journal};

    fn entry(id: &str) -> Entry {
        Entry {
            id: id.to_owned(),
            daemon: "unix:///d".to_owned(),
            stage: Some("/s".into()),
            plate: None,
        }
    }

    #[test]
    fn a_record_is_abandoned_when_its_owner_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::new(state.path());
        let record = journal.write(&entry("one")).unwrap();
        assert!(journal.abandoned().unwrap().is_empty());
        drop(record);
        let abandoned = journal.abandoned().unwrap();
        assert_eq!(abandoned[0].0, entry("one"));
        // Whoever has it is its owner.
        assert!(journal.abandoned().unwrap().is_empty());
        for (_, record) in abandoned {
            record.close().unwrap();
        }
        assert!(journal.abandoned().unwrap().is_empty());
    }

    #[test]
    fn an_instance_keeps_its_name() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::new(state.path());
        let name = journal.instance().unwrap();
        assert_eq!(name.len(), 32);
        assert_eq!(journal.instance().unwrap(), name);
        assert!(journal.abandoned().unwrap().is_empty());
        assert_eq!(journal.instance().unwrap(), name);
    }
}
