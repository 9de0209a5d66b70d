//! The private disk of a container: what it begins with, and copies of it.
//!
//! Layers cannot lie below the directories of a container as they do in a native sandbox: its mounts
//! are its daemon's. So a disk is filled before the first program with a copy of what it begins with,
//! and a copy of it is whole. Layers are the same directories as everywhere.
//!
//! Invariant: files that programs have written are read and made by a process that has the rights of
//! their user, and no others.

mod inside;
mod reach;

use std::{
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::Path,
};

use bulkhead_guest::layer::{CopyOrder, Entry, Part, PartKind, Place};
use bulkhead_linux::{
    identity::{Opener, Translation},
    mounts::{self, Attributes},
};
use bulkhead_policy::{Disk, KeptState, Plan};
use bulkhead_spec::Access;
use rustix::fs::{Gid, Mode, Uid};

use self::inside::Inside;
pub(super) use self::reach::Beyond;
use self::reach::Reach;
use super::{
    Container,
    find::Parts,
    lower::{Found, Private, private},
    made::Made,
    stage::{Notes, changes},
};
use crate::{
    BackendError, Copied, Extent,
    copying::{DIR, copy},
    identity::{INSIDE, Translations},
    workspace::share::{Share, c_path},
};

/// How a disk can be copied.
pub(super) enum Source {
    /// It lies on this host.
    Here(Here),
    /// It lies in the container alone.
    Inside(Inside),
    /// It cannot, and why.
    Beyond(Beyond),
}

/// A disk on this host.
pub(super) struct Here {
    base: OwnedFd,
    parts: Vec<Part>,
    whose: Whose,
}

/// Whose files are on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Of a user that is the sandbox's alone; we are root.
    Theirs(u32),
    /// Ours.
    Ours,
}

/// The places of the disk of `plan`, and the changes to what is shared privately.
fn parts(plan: &Plan, found: &Found) -> Vec<Part> {
    let part = |name: String, kind| Part { from: name.clone(), to: name, kind };
    let places = private(plan, found).into_iter().filter(Private::is_disk);
    let shares = found.shares.iter().enumerate();
    let shares = shares.filter(|(_, it)| it.access == Access::Private);
    let places = places.map(|it| part(it.name, PartKind::Plain));
    places.chain(shares.map(|(at, _)| part(changes(at), PartKind::Changes))).collect()
}

/// Whether `disk` is still to be filled with what it begins with.
fn is_new(disk: &Disk) -> bool {
    disk.kept.as_ref().is_none_or(|it| it.state == KeptState::New)
}

impl Container {
    /// Fills a disk on this host with what it begins with, unless that was done before, and mounts
    /// what lies over it.
    pub(super) async fn begin_disk(
        &self,
        plan: &Plan,
        made: &Made,
        (parts_of, found): (&Parts, &Found),
    ) -> Result<Source, BackendError> {
        let disk = &parts_of.looked.disk;
        let (base, whose) = match (self.reach(plan.disk()), made.stage(), &disk.kept) {
            (Ok(Reach::Stage), Some(stage), _) => {
                (stage.disk(), Whose::Theirs(parts_of.user.uid))
            }
            (Ok(Reach::Kept), _, Some(kept)) => (laid(plan, found, kept), Whose::Ours),
            (Ok(_), _, _) => return Ok(Source::Beyond(Beyond::Unreached)),
            (Err(beyond), _, _) => return Ok(Source::Beyond(beyond)),
        };
        let here = Here { base: base.map_err(failed)?, parts: parts(plan, found), whose };
        for layer in disk.layers.iter().filter(|_| is_new(plan.disk())) {
            here.fill(layer).await?;
        }
        let joined = made.stage().map(|it| it.join(&parts_of.looked.shares)).transpose()?;
        Ok(match joined {
            None | Some(Notes::Everybodys) => Source::Here(here),
            Some(Notes::Roots) => Source::Beyond(Beyond::Notes),
        })
    }
}

/// Makes the places of a disk that we keep ourselves, unless they are there, and opens it.
fn laid(plan: &Plan, found: &Found, kept: &Share) -> io::Result<OwnedFd> {
    for place in private(plan, found).iter().filter(|it| it.is_disk()) {
        let path = kept.from.join(&place.name);
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // Whatever our mask.
        std::fs::set_permissions(
            &path,
            std::os::unix::fs::PermissionsExt::from_mode(place.mode),
        )?;
    }
    Ok(rustix::fs::open(&kept.from, DIR, Mode::empty())?)
}

impl Source {
    /// Copies the disk into the empty directory `layer`.
    pub(super) async fn copy(&self, layer: &Path) -> Result<Copied, BackendError> {
        let (bytes, files) = match self {
            Self::Here(here) => here.copy(layer).await?,
            Self::Inside(inside) => inside.copy(layer).await?,
            Self::Beyond(beyond) => return Err(beyond.refusal("copy the disk")),
        };
        Ok(Copied { bytes, files, extent: Extent::Whole })
    }
}

impl Here {
    /// Copies `layer` to where the disk is.
    async fn fill(&self, layer: &Share) -> Result<(), BackendError> {
        let layer = match self.whose {
            Whose::Theirs(user) => translated(layer, user),
            Whose::Ours => Ok(opened(&layer.from).map_err(failed)?),
        };
        self.order(Place::Laid, [&layer.map_err(failed)?, &self.base]).await.map(drop)
    }

    async fn copy(&self, layer: &Path) -> Result<(u64, u64), BackendError> {
        if let Whose::Theirs(user) = self.whose {
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            let given = rustix::fs::chown(layer, Some(uid), Some(gid));
            given.map_err(|errno| failed(errno.into()))?;
        }
        let layer = opened(layer).map_err(failed)?;
        self.order(Place::Empty, [&self.base, &layer]).await
    }

    async fn order(
        &self,
        place: Place,
        [base, layer]: [&OwnedFd; 2],
    ) -> Result<(u64, u64), BackendError> {
        let wanted =
            |entry| CopyOrder { parts: self.parts.clone(), user: INSIDE, entry, place };
        match self.whose {
            Whose::Theirs(user) => {
                let way = Translation::make((INSIDE, INSIDE), user, Opener::Themselves);
                let way = way.map_err(failed)?;
                let with = [way.namespace().as_fd(), base.as_fd(), layer.as_fd()];
                copy(&wanted(Entry::Users), with).await
            }
            Whose::Ours => {
                let with = [base.as_fd(), base.as_fd(), layer.as_fd()];
                copy(&wanted(Entry::Own), with).await
            }
        }
    }
}

/// `layer`, whoever wrote it, as that of `user`.
fn translated(layer: &Share, user: u32) -> io::Result<OwnedFd> {
    let mut translations = Translations::default();
    let owners = translations.of(layer.looked.owner, user)?;
    let inode = layer.looked.inode;
    mounts::translated(&c_path(&layer.from), inode, Attributes::ReadOnly, owners)
}

fn opened(dir: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(dir, DIR, Mode::empty())?)
}

fn failed(source: io::Error) -> BackendError {
    BackendError::System { action: "copy the disk", source }
}
