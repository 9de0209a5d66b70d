//! Which images the store has, and how it lets go of one.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use bulkhead_spec::{Digest, escape};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use super::Store;
use crate::{
    managed::{Managed, Purpose},
    manifest::Record,
};

impl Store {
    /// Every image that is here, by its digest.
    pub(crate) fn list(&self) -> io::Result<Vec<Managed>> {
        let mut found = Vec::new();
        for (record, path) in self.records()? {
            let layers: BTreeSet<Digest> = record.layers.iter().copied().collect();
            let mut size = 0;
            let mut used = false;
            for layer in layers {
                size += size_of(&self.layer(layer))?;
                used |= self.is_used(layer)?;
            }
            found.push(Managed {
                id: record.digest.to_string(),
                tags: self.names_of(record.digest)?.into_iter().map(|(_, name)| name).collect(),
                size,
                since: fs::metadata(path).and_then(|it| it.modified()).ok(),
                purpose: Purpose::Image,
                used,
            });
        }
        found.sort_by(|a, b| (&a.tags, &a.id).cmp(&(&b.tags, &b.id)));
        Ok(found)
    }

    /// Lets go of the image `digest` and of the layers that no other has. What a sandbox uses stays.
    pub(crate) fn forget(&self, digest: Digest) -> io::Result<()> {
        let records = self.records()?;
        let (gone, kept): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|(it, _)| it.digest == digest);
        for (path, _) in self.names_of(digest)? {
            fs::remove_file(path)?;
        }
        let needed: BTreeSet<Digest> =
            kept.iter().flat_map(|(it, _)| it.layers.iter().copied()).collect();
        for (record, path) in gone {
            fs::remove_file(path)?;
            for layer in record.layers.into_iter().filter(|it| !needed.contains(it)) {
                match self.remove(layer) {
                    // Twice in one image, or taken by somebody else.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => drop(removed?),
                }
            }
        }
        Ok(())
    }

    /// What is known of each image, and where that is written.
    fn records(&self) -> io::Result<Vec<(Record, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.dir.join("records"))? {
            let path = entry?.path();
            let record = fs::read(&path).ok().and_then(|it| serde_json::from_slice(&it).ok());
            found.extend(record.map(|it| (it, path)));
        }
        Ok(found)
    }

    /// The names that stood for the image `digest`, and where that is written.
    fn names_of(&self, digest: Digest) -> io::Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.dir.join("names"))? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            if let Some((id, name)) = text.trim_end().split_once(' ')
                && id == digest.to_string()
            {
                found.push((path, escape(name)));
            }
        }
        Ok(found)
    }

    /// Whether a sandbox has `layer` in use.
    fn is_used(&self, layer: Digest) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let dir = match rustix::fs::open(self.layer(layer), flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The bytes of all files below `dir`, without following a link.
fn size_of(dir: &Path) -> io::Result<u64> {
    let mut size = 0;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                left.push(entry.path());
            } else {
                size += about.len();
            }
        }
    }
    Ok(size)
}
