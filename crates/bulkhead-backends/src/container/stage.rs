//! What we mount on this host for one container, where we are root and the daemon sees our mounts.
//!
//! One sized tmpfs has a directory for each private place, so that one number bounds all of it
//! together. On it are mounted the shared trees, with their owners translated to the sandbox's
//! user, and overlays for what is to be changed privately. The daemon binds from there.
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
use bulkhead_spec::{Access, escape_bytes};
use rustix::{
    fs::{CWD, FileType},
    io::Errno,
    mount::{MountFlags, MoveMountFlags, UnmountFlags, mount, move_mount, unmount},
};

use super::lower::{Private, Shown};
use crate::{
    BackendError,
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
}

impl Stage {
    /// Where the mounts of the sandbox `id` are.
    pub(super) fn place(runtime: &Path, id: &str) -> PathBuf {
        runtime.join("stages").join(id)
    }

    /// Mounts the tmpfs.
    pub(super) fn lay(
        dir: &Path,
        (user, opener): (u32, Opener),
        (bytes, inodes): (u64, u64),
    ) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let stage = Self { dir: dir.to_owned(), user, opener };
        let options = format!("size={bytes},nr_inodes={inodes},mode=0711");
        let options = c_path(options.as_ref());
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("bulkhead", dir, "tmpfs", flags, Some(options.as_c_str()))?;
        for name in ["trees", "upper"] {
            std::fs::DirBuilder::new().mode(0o711).create(dir.join(name))?;
        }
        Ok(stage)
    }

    /// Ends the mounts on this host; the container keeps what it was shown.
    pub(super) fn strike(&self) -> io::Result<()> {
        detach(&self.dir)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directories of `places`.
    pub(super) fn furnish(&self, places: &[Private]) -> io::Result<()> {
        for place in places {
            self.own_dir(&self.dir.join(&place.name), place.mode)?;
        }
        Ok(())
    }

    /// Writes a small file to the home directory.
    pub(super) fn home_file(&self, name: &str, content: &str) -> io::Result<()> {
        let path = self.dir.join("home").join(name);
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut file, content.as_bytes())?;
        chown(&path, Some(self.user), Some(self.user))
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

    /// Mounts `shares` with their owners translated, and says where each is.
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
                Access::Private => self.overlay(at, &source).map_err(failed)?,
            };
            shown.push(Shown { source, ..share.into() });
        }
        Ok(shown)
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
        move_mount(tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(target)
    }

    /// A copy on write of `lower`, whose changes go to the tmpfs.
    fn overlay(&self, at: usize, lower: &Path) -> io::Result<PathBuf> {
        let dir = |kind: &str| self.dir.join("upper").join(format!("{at}-{kind}"));
        let (upper, work, merged) = (dir("upper"), dir("work"), dir("merged"));
        self.own_dir(&upper, 0o755)?;
        self.own_dir(&work, 0o755)?;
        self.own_dir(&merged, 0o755)?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let options = c_path(options.as_ref());
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("bulkhead", &merged, "overlay", flags, Some(options.as_c_str()))?;
        Ok(merged)
    }
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
