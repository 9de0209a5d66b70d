//! Layers: what disks begin with.
//!
//! ```text
//! layers/ID       a layer: whole, on the disk, never changed
//! layers/ID.new   one that is being made; only with its lock is it anybody's
//! layers/ID.old   one that is being removed
//! ```
//!
//! Invariant: a layer with its final name is whole. It stays as long as a checkpoint, a room that
//! lives or a room whose disk is kept begins with it, or somebody holds its lock.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::AsFd as _,
        unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Where the layers of one user are.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    dir: PathBuf,
}

/// A layer that is being made; dropping it removes what there is.
#[derive(Debug)]
pub(super) struct Fresh {
    layers: Layers,
    id: String,
    /// The directory, locked; taken when it is whole.
    lock: Option<File>,
}

/// A layer that cannot be removed while this lives.
#[derive(Debug)]
pub(super) struct Lease {
    id: String,
    _lock: File,
}

impl Lease {
    /// Which layer.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// What becomes of a layer if the host loses its power now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// It is there afterwards.
    Disk,
    /// Those who need it are gone as well.
    Memory,
}

impl Layers {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where the layer `id` is.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.dir.join(id)
    }

    /// Begins a layer, in the turn of whoever sweeps.
    pub(super) fn begin(&self) -> io::Result<Fresh> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let id = random_id()?;
        let path = self.dir.join(format!("{id}.new"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Fresh { layers: self.clone(), id, lock: Some(lock) })
    }

    /// Removes what nobody needs: layers for which `needed` is false, and what was left half made.
    /// Says which.
    pub(super) fn sweep(&self, needed: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut swept = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let whole = !name.contains('.');
            if (whole && needed(&name)) || !self.is_free(&name)? {
                continue;
            }
            let path = entry.path();
            let old = if whole { self.dir.join(format!("{name}.old")) } else { path.clone() };
            if whole {
                // From here on it is no layer, even if its removal is cut short.
                fs::rename(&path, &old)?;
            }
            // Somebody may still write to one whose maker died.
            if let Err(error) = remove_tree(&old) {
                tracing::warn!(%error, name, "a layer is left to the next sweep");
                continue;
            }
            swept.push(name);
        }
        Ok(swept)
    }

    /// Whether nobody holds the lock of `name`.
    fn is_free(&self, name: &str) -> io::Result<bool> {
        let lock = match File::open(self.dir.join(name)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            // A directory that its sandbox had made unreadable is not of ours: ours are 0700.
            Err(error) => return Err(error),
        };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Fresh {
    /// Where it is being made: an empty directory.
    pub(super) fn path(&self) -> PathBuf {
        self.layers.dir.join(format!("{}.new", self.id))
    }

    /// Gives it its final name.
    pub(super) fn finish(mut self, durability: Durability) -> io::Result<Lease> {
        let Some(lock) = self.lock.take() else { return Err(io::ErrorKind::NotFound.into()) };
        if durability == Durability::Disk {
            rustix::fs::syncfs(lock.as_fd())?;
        }
        let (id, dir) = (std::mem::take(&mut self.id), self.layers.dir.clone());
        fs::rename(dir.join(format!("{id}.new")), dir.join(&id))?;
        if durability == Durability::Disk {
            File::open(&dir)?.sync_all()?;
        }
        Ok(Lease { id, _lock: lock })
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.lock.take().is_some()
            && let Err(error) = remove_tree(&self.path())
        {
            tracing::warn!(%error, "a half made layer is left to the next sweep");
        }
    }
}

/// Removes a tree that a sandbox has written: no link is followed, and permissions that forbid to
/// look into a directory are changed first.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn open_up(path: &Path) -> io::Result<()> {
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

pub(super) fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
