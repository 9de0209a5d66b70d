//! What we mount on this host for one container, where we are root and the daemon sees our mounts.
//!
//! ```text
//! stage/                 one sized tmpfs, so that one number bounds all of it together
//! ├── disk/home, …       the private places of the disk, or where they are kept
//! ├── disk/upper1, …     changes to private shares
//! ├── run, shm           private places that end with the programs
//! ├── plate              what tells the machine from others
//! ├── trees/0, …         what is shared, with owners translated to the sandbox's user
//! └── merged/0, …        private shares: overlays of trees and changes
//! ```
//!
//! The daemon binds from there.
//!
//! Invariants: everything is on or below one mount point, so that one detached unmount ends it all,
//! be it ours or that of whoever sweeps. It is there only until the container has mounts of its own:
//! whoever clears our directory away later finds nothing of a workspace in it.

use std::{
    collections::BTreeMap,
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
};

use bulkhead_linux::{
    identity::Opener,
    mounts::{self, Attributes},
};
use bulkhead_policy::Nameplate;
use bulkhead_spec::{Access, escape_bytes};
use rustix::{
    fs::{CWD, FileType, Mode, XattrFlags},
    io::Errno,
    mount::{MountFlags, MoveMountFlags, UnmountFlags, mount, move_mount, unmount},
};

use super::{
    lower::{DISK, Private, Shown},
    plate,
};
use crate::{
    BackendError, copying,
    identity::Translations,
    workspace::share::{Share, c_path},
};

/// The mounts of one container. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Stage {
    dir: PathBuf,
    /// The sandbox's user and group.
    user: u32,
    /// Who opens its files.
    opener: Opener,
    disk: Place,
}

/// Where the private disk is.
#[derive(Debug)]
struct Place {
    /// As this host sees it, whoever its files are translated to.
    at: PathBuf,
    /// Whose they are there.
    owner: (u32, u32),
}

impl Stage {
    /// Where the mounts of the sandbox `id` are.
    pub(super) fn place(runtime: &Path, id: &str) -> PathBuf {
        runtime.join("stages").join(id)
    }

    /// Mounts the tmpfs, and on it the place where the disk is kept, if it is.
    pub(super) fn lay(
        dir: &Path,
        (user, opener): (u32, Opener),
        (bytes, inodes): (u64, u64),
        kept: Option<&Share>,
    ) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let disk = match kept {
            Some(share) => Place { at: share.from.clone(), owner: share.looked.owner },
            None => Place { at: dir.join(DISK), owner: (user, user) },
        };
        let stage = Self { dir: dir.to_owned(), user, opener, disk };
        let options = format!("size={bytes},nr_inodes={inodes},mode=0711");
        let options = c_path(options.as_ref());
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("bulkhead", dir, "tmpfs", flags, Some(options.as_c_str()))?;
        for name in ["trees", "merged", DISK] {
            std::fs::DirBuilder::new().mode(0o711).create(dir.join(name))?;
        }
        if let Some(share) = kept {
            stage.keep(share)?;
        }
        Ok(stage)
    }

    /// Shows the place where the disk is kept, as the sandbox's.
    fn keep(&self, share: &Share) -> io::Result<()> {
        // Daemons, and the kernel for an overlay, make files there as root.
        let mut translations = Translations::opened_by(Opener::Root);
        let owners = translations.of(share.looked.owner, self.user)?;
        let (from, inode) = (c_path(&share.from), share.looked.inode);
        let tree = mounts::translated(&from, inode, Attributes::ReadWrite, owners)?;
        Ok(moved(&tree, &self.dir.join(DISK))?)
    }

    /// Ends the mounts on this host; the container keeps what it was shown.
    pub(super) fn strike(&self) -> io::Result<()> {
        detach(&self.dir)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The disk, for as long as somebody may want to copy it.
    pub(super) fn disk(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(self.dir.join(DISK), copying::DIR, Mode::empty())?)
    }

    /// Makes the directories of `places`.
    pub(super) fn furnish(&self, places: &[Private]) -> io::Result<()> {
        for place in places {
            if place.is_disk() {
                self.disk_dir(&place.name, place.mode)?;
            } else {
                self.own_dir(&self.dir.join(&place.name), place.mode)?;
            }
        }
        Ok(())
    }

    /// Writes a small file to the home directory.
    pub(super) fn home_file(&self, name: &str, content: &str) -> io::Result<()> {
        let path = self.disk.at.join("home").join(name);
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut file, content.as_bytes())?;
        let (uid, gid) = self.disk.owner;
        chown(&path, Some(uid), Some(gid))
    }

    /// Writes down what tells the machine from others, and says where.
    pub(super) fn plate(&self, plate: Option<&Nameplate>) -> io::Result<Option<PathBuf>> {
        let Some(plate) = plate else { return Ok(None) };
        let dir = self.dir.join("plate");
        plate::write(&dir, plate)?;
        Ok(Some(dir))
    }

    /// Writes what programs are told by files of ours; they are root's, to be read only.
    pub(super) fn notes(&self, notes: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        let dir = self.dir.join("run/bulkhead");
        std::fs::create_dir(&dir)?;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755))?;
        for (name, content) in notes {
            let path = dir.join(name);
            std::fs::write(&path, content)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    fn own_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        std::fs::create_dir(path)?;
        chown(path, Some(self.user), Some(self.user))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }

    /// Makes a directory of the disk, unless it was kept.
    fn disk_dir(&self, name: &str, mode: u32) -> io::Result<()> {
        let path = self.disk.at.join(name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            done => done?,
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        let (uid, gid) = self.disk.owner;
        chown(&path, Some(uid), Some(gid))
    }

    /// Mounts `shares` with their owners translated, and says where each will be: those that are
    /// private, when [`Stage::join`] has been there.
    pub(super) fn show(&self, shares: &[Share]) -> Result<Vec<Shown>, BackendError> {
        let mut translations = Translations::opened_by(self.opener);
        let mut shown = Vec::new();
        for (at, share) in shares.iter().enumerate() {
            let tree = self.translate(share, &mut translations)?;
            let failed = |source: io::Error| BackendError::Build {
                action: format!("mount `{}` for the daemon", name(share)),
                source,
                hint: None,
            };
            let source = self.attach(at, share, &tree).map_err(failed)?;
            let source = match share.access {
                Access::ReadOnly | Access::ReadWrite => source,
                Access::Private => self.overlay_dirs(at).map_err(failed)?,
            };
            shown.push(Shown { source, ..share.into() });
        }
        Ok(shown)
    }

    /// Mounts the overlays of private `shares`, whose changes nobody may touch from then on. Says
    /// who can read those.
    pub(super) fn join(&self, shares: &[Share]) -> Result<Notes, BackendError> {
        let mut notes = Notes::Everybodys;
        for (at, share) in shares.iter().enumerate() {
            if share.access == Access::Private {
                notes = self.overlay(at).map_err(|source| BackendError::Build {
                    action: format!("mount `{}` for the daemon", name(share)),
                    source,
                    hint: None,
                })?;
            }
        }
        Ok(notes)
    }

    fn translate(
        &self,
        share: &Share,
        translations: &mut Translations,
    ) -> Result<OwnedFd, BackendError> {
        let attributes = match share.access {
            Access::ReadWrite => Attributes::ReadWrite,
            Access::ReadOnly | Access::Private => Attributes::ReadOnly,
        };
        let failed = |source: io::Error| BackendError::Build {
            action: format!("translate the owner of `{}`", name(share)),
            source,
            hint: Some(
                "its filesystem may not support it; run bulkhead as the owner of the files \
                 instead of root"
                    .to_owned(),
            ),
        };
        let owners = translations.of(share.looked.owner, self.user).map_err(failed)?;
        mounts::translated(&c_path(&share.from), share.looked.inode, attributes, owners)
            .map_err(failed)
    }

    fn attach(&self, at: usize, share: &Share, tree: &OwnedFd) -> io::Result<PathBuf> {
        let target = self.dir.join("trees").join(at.to_string());
        if share.looked.kind == FileType::Directory {
            std::fs::create_dir(&target)?;
        } else {
            std::fs::File::create(&target)?;
        }
        moved(tree, &target)?;
        Ok(target)
    }

    /// Directories for a copy on write of the tree `at`, whose changes go to the disk.
    fn overlay_dirs(&self, at: usize) -> io::Result<PathBuf> {
        let upper = changes(at);
        self.disk_dir(&upper, 0o755)?;
        self.disk_dir(&format!("{upper}-work"), 0o755)?;
        let merged = self.dir.join("merged").join(at.to_string());
        self.own_dir(&merged, 0o755)?;
        Ok(merged)
    }

    /// Mounts it.
    fn overlay(&self, at: usize) -> io::Result<Notes> {
        let (trees, upper) = (self.dir.join("trees"), self.dir.join(DISK).join(changes(at)));
        let notes = notes(&upper)?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}-work{}",
            trees.join(at.to_string()).display(),
            upper.display(),
            upper.display(),
            match notes {
                Notes::Everybodys => ",userxattr",
                Notes::Roots => "",
            }
        );
        let options = c_path(options.as_ref());
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let merged = self.dir.join("merged").join(at.to_string());
        mount("bulkhead", &merged, "overlay", flags, Some(options.as_c_str()))?;
        Ok(notes)
    }
}

/// Who can read what an overlay writes down beside its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notes {
    /// Whoever can read the files.
    Everybodys,
    /// Root: this filesystem has no attributes of users.
    Roots,
}

/// What the overlay over `upper` can do: tmpfs has attributes of users since Linux 6.6.
fn notes(upper: &Path) -> io::Result<Notes> {
    let probe = c"user.bulkhead";
    match rustix::fs::setxattr(upper, probe, b"", XattrFlags::empty()) {
        Ok(()) => {
            rustix::fs::removexattr(upper, probe)?;
            Ok(Notes::Everybodys)
        }
        Err(Errno::OPNOTSUPP) => Ok(Notes::Roots),
        Err(errno) => Err(errno.into()),
    }
}

/// What the changes to the share `at` are called on the disk; 0 is that of the root, which never
/// changes in a container.
pub(super) fn changes(at: usize) -> String {
    format!("upper{}", at.saturating_add(1))
}

fn moved(tree: &OwnedFd, target: &Path) -> Result<(), Errno> {
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn name(share: &Share) -> String {
    escape_bytes(share.from.as_os_str().as_encoded_bytes())
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.dir) {
            // The record stays for as long, so the next start tries again.
            tracing::warn!(dir = %self.dir.display(), %error, "mounts were left");
        }
    }
}

/// Ends every mount at and below `dir`.
fn detach(dir: &Path) -> io::Result<()> {
    // More than one if two mounts came to lie on each other.
    loop {
        match unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Not a mount point, or not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Ends every mount at and below `dir`, and removes it.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    detach(dir)?;
    match std::fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
