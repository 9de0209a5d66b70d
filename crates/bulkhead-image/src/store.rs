//! What was unpacked, by digest.
//!
//! ```text
//! images/          private to one user
//! ├── layers/HEX   one layer each, by the digest of its tar stream; never changed
//! ├── records/HEX  what an image says about itself, and which layers it has
//! ├── names/HEX    which image a name of a registry stood for when it was last asked
//! ├── locks/HEX    held by whoever unpacks or removes that layer
//! └── tmp/HEX      a layer that is being unpacked; only with its lock is it anybody's
//! ```
//!
//! Invariant: what has its final name is whole and on the disk. A crash leaves things in `tmp`
//! alone, and the next one to hold the lock removes them.

mod kept;
mod seen;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use bulkhead_spec::{Digest, Reference};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use crate::{ImageError, hash::digest_of, manifest::Record};

#[cfg(test)]
mod tests;

pub use seen::Seen;

const PARTS: [&str; 5] = ["layers", "records", "names", "locks", "tmp"];

/// The images of one user.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

/// The right to make one layer; nobody else is at it.
pub(crate) struct Claim {
    store: Store,
    layer: Digest,
    _lock: File,
}

/// The layers of an image, kept from being removed while this value lives.
#[derive(Debug)]
pub struct InUse {
    /// The directory that holds all layers.
    pub dir: PathBuf,
    /// The names of the image's layers in it, the topmost first.
    pub layers: Vec<String>,
    /// The same layers, open and locked.
    held: Vec<OwnedFd>,
}

impl Store {
    /// Opens the store, or makes an empty one.
    pub(crate) fn open(dir: &Path) -> Result<Self, ImageError> {
        let failed = |source| ImageError::System {
            action: format!("use the cache in `{}`", dir.display()),
            source,
        };
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        for part in PARTS {
            private.create(dir.join(part)).map_err(failed)?;
        }
        // Of somebody else's, its content could be changed under our sandboxes.
        let about = fs::symlink_metadata(dir).map_err(failed)?;
        let ours = about.uid() == rustix::process::geteuid().as_raw();
        if !ours || about.mode() & 0o022 != 0 || !about.is_dir() {
            return Err(failed(io::Error::other(
                "it belongs to another user, or others may write to it",
            )));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Where every layer lies.
    pub(crate) fn layers(&self) -> PathBuf {
        self.dir.join("layers")
    }

    fn layer(&self, layer: Digest) -> PathBuf {
        self.layers().join(layer.hex())
    }

    fn scratch(&self, layer: Digest) -> PathBuf {
        self.dir.join("tmp").join(layer.hex())
    }

    /// The image of that digest, if all of it is here.
    pub(crate) fn record(&self, digest: Digest) -> Option<Record> {
        let bytes = fs::read(self.dir.join("records").join(digest.hex())).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        let whole = record.layers.iter().all(|layer| self.layer(*layer).is_dir());
        (whole && record.digest == digest).then_some(record)
    }

    /// Which image `name` stood for when its registry was last asked.
    pub(crate) fn named(&self, name: &Reference) -> Option<Record> {
        let text = fs::read_to_string(self.name(name)).ok()?;
        let (digest, written) = text.trim_end().split_once(' ')?;
        (written == name.to_string()).then(|| self.record(digest.parse().ok()?)).flatten()
    }

    fn name(&self, name: &Reference) -> PathBuf {
        self.dir.join("names").join(digest_of(name.to_string().as_bytes()).hex())
    }

    /// Keeps an image whose layers are here.
    pub(crate) fn keep(
        &self,
        record: &Record,
        name: Option<&Reference>,
    ) -> Result<(), ImageError> {
        let failed = || ImageError::system("keep what is known of an image");
        let text = serde_json::to_vec(record).map_err(io::Error::other).map_err(failed())?;
        let place = self.dir.join("records").join(record.digest.hex());
        self.write(&place, &text).map_err(failed())?;
        let Some(name) = name else { return Ok(()) };
        let text = format!("{} {name}\n", record.digest);
        self.write(&self.name(name), text.as_bytes()).map_err(failed())
    }

    /// Writes a small file so that it is there as a whole or not at all.
    fn write(&self, place: &Path, content: &[u8]) -> io::Result<()> {
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let scratch = self.dir.join("tmp").join(format!("new-{:x}", u64::from_ne_bytes(bytes)));
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&scratch)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let moved = written.and_then(|()| fs::rename(&scratch, place));
        if moved.is_err() {
            // What could not be moved is of no use; that it stays is worth no second error.
            fs::remove_file(&scratch).unwrap_or_default();
        }
        moved
    }

    /// A file without a name, for what must be read twice.
    pub(crate) fn nameless(&self) -> Result<File, ImageError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.dir.join("tmp"), flags, Mode::from_raw_mode(0o600));
        file.map(File::from)
            .map_err(io::Error::from)
            .map_err(ImageError::system("make a temporary file"))
    }

    /// Claims `layer`, waiting for whoever is at it. `None` if it is here.
    pub(crate) fn claim(&self, layer: Digest) -> Result<Option<Claim>, ImageError> {
        if self.layer(layer).is_dir() {
            return Ok(None);
        }
        let locked = self.lock(layer).and_then(|lock| {
            flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        });
        let lock = locked.map_err(ImageError::system("lock a layer"))?;
        // Somebody may have made it while we waited.
        if self.layer(layer).is_dir() {
            return Ok(None);
        }
        Ok(Some(Claim { store: self.clone(), layer, _lock: lock }))
    }

    fn lock(&self, layer: Digest) -> io::Result<File> {
        let path = self.dir.join("locks").join(layer.hex());
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
    }

    /// Keeps the layers of `record` from being removed.
    pub(crate) fn hold(&self, record: &Record) -> Result<InUse, ImageError> {
        let mut layers: Vec<String> = Vec::new();
        let mut held = Vec::new();
        for layer in record.layers.iter().rev() {
            let name = layer.hex();
            // An overlay refuses the same directory twice, and the upper one says it all.
            if layers.contains(&name) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let dir = rustix::fs::open(self.layer(*layer), flags, Mode::empty())
                .and_then(|dir| flock(&dir, FlockOperation::LockShared).map(|()| dir))
                .map_err(io::Error::from)
                .map_err(ImageError::system(format!("use layer {layer}")))?;
            held.push(dir);
            layers.push(name);
        }
        Ok(InUse { dir: self.layers(), layers, held })
    }

    /// Removes what a crash left, and tells what it was.
    pub(crate) fn sweep(&self) -> io::Result<Vec<String>> {
        let mut swept = Vec::new();
        for entry in fs::read_dir(self.dir.join("tmp"))? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with("new-") {
                // Written and moved in one breath: one that is older is nobody's.
                let age = entry.metadata().and_then(|it| it.modified())?.elapsed();
                if age.is_ok_and(|age| 60 < age.as_secs()) {
                    fs::remove_file(entry.path())?;
                }
                continue;
            }
            let Ok(layer) = format!("sha256:{name}").parse() else { continue };
            let lock = self.lock(layer)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    remove_tree(&entry.path())?;
                    swept.push(format!("part of layer {name}"));
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(swept)
    }

    /// Removes `layer`, unless a sandbox uses it.
    pub(crate) fn remove(&self, layer: Digest) -> io::Result<bool> {
        let lock = self.lock(layer)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let dir = rustix::fs::open(self.layer(layer), flags, Mode::empty())?;
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        let scratch = self.scratch(layer);
        remove_tree(&scratch)?;
        fs::rename(self.layer(layer), &scratch)?;
        remove_tree(&scratch)?;
        Ok(true)
    }
}

impl Claim {
    /// Lets `write` make the layer in an empty directory; it is seen by others when it is whole.
    pub(crate) fn fill(
        self,
        write: impl FnOnce(BorrowedFd<'_>) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let failed = || ImageError::system("make room for a layer");
        let scratch = self.store.scratch(self.layer);
        remove_tree(&scratch).map_err(failed())?;
        fs::DirBuilder::new().mode(0o700).create(&scratch).map_err(failed())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let dir = rustix::fs::open(&scratch, flags, Mode::empty());
        let dir = dir.map_err(io::Error::from).map_err(failed())?;
        let written = write(dir.as_fd()).and_then(|()| {
            self.publish(&dir, &scratch).map_err(ImageError::system("keep a layer"))
        });
        if written.is_err() {
            // The reason why matters more than that something stays for the next sweep.
            remove_tree(&scratch).unwrap_or_default();
        }
        written
    }

    fn publish(&self, dir: &OwnedFd, scratch: &Path) -> io::Result<()> {
        // All files of the layer, with one call instead of one for each.
        rustix::fs::syncfs(dir)?;
        fs::rename(scratch, self.store.layer(self.layer))?;
        File::open(self.store.layers())?.sync_all()
    }
}

/// Removes a tree that may not be there. Directories of a layer can always be written by us.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
