//! What is on this host, as far as a plan touches it.
//!
//! The survey looks and decides nothing. It notes which inode each path led to, and the sandbox is
//! built from exactly those, whatever the paths say by then.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use bulkhead_image::InUse;
use bulkhead_linux::mounts::Looked;
use bulkhead_policy::Plan;
use bulkhead_spec::{Access, Network, Root};
use rustix::fs::FileType;

use super::{
    frame::Stamp,
    image::{self, Layers},
    root,
    shape::Parts,
};
use crate::{
    BackendError,
    workspace::{
        disk::FoundDisk,
        protect::{self, Protection},
        share::{Share, looked, share},
    },
};

/// What every sandbox of this host sees, whatever its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct House {
    /// The host's own programs and settings; empty for another root.
    pub(super) own: Vec<Entry>,
    /// Devices.
    pub(super) devices: Vec<Entry>,
}

/// What was found of that which the plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// The other root.
    pub(super) root: Option<Share>,
    /// The layers of which that root consists, if it is an image.
    pub(super) layers: Option<Layers>,
    /// What the plan shares, outer directories first.
    pub(super) shares: Vec<Share>,
    /// What must stay as it is within them.
    pub(super) protections: Vec<Protection>,
    /// What the private disk begins with, and where it is kept.
    pub(super) disk: FoundDisk,
    /// Whom the host asks for names, if the sandbox is to ask the same.
    pub(super) names: Option<String>,
}

/// One path of the host's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A file or directory; what a small file of settings is known by that may be copied.
    Is { path: PathBuf, looked: Looked, stamp: Option<Stamp> },
    /// A symbolic link.
    Link { path: PathBuf, to: OsString },
}

impl House {
    /// Looks at the host, for sandboxes whose root is made of `parts`.
    pub(super) fn survey(parts: Parts) -> Self {
        let own = match parts {
            Parts::Host => root::PROGRAMS.iter().chain(&root::SETTINGS).copied().collect(),
            Parts::Other => Vec::new(),
        };
        Self { own: entries(&own), devices: entries(&root::DEVICES) }
    }
}

/// Looks at everything that `plan` names but its disk, which was found.
pub(super) fn survey(
    plan: &Plan,
    image: Option<&InUse>,
    disk: FoundDisk,
) -> Result<Survey, BackendError> {
    let root = match plan.root() {
        Root::Host => None,
        Root::Directory(dir) => Some(share(dir.as_path(), Path::new("/"), Access::Private)?),
        Root::Image(_) => {
            image.map(|it| share(&it.dir, Path::new("/"), Access::Private)).transpose()?
        }
    };
    let mut shares = Vec::new();
    let mut protections = Vec::new();
    for mount in plan.mounts() {
        shares.push(share(mount.from.as_path(), mount.to.as_path(), mount.access)?);
    }
    if let Some(workspace) = plan.workspace() {
        let dir = workspace.dir.as_path();
        shares.push(share(dir, dir, workspace.access)?);
        let found = protect::find(workspace, plan.home().as_path())?;
        shares.extend(found.shares);
        protections = found.protections;
    }
    shares.sort_by_key(|it| it.to.components().count());
    let layers = image.map(|it| image::layers(plan, it));
    let names = match plan.network() {
        // A host without one has no names either.
        Network::Open => std::fs::read_to_string("/etc/resolv.conf").ok(),
        Network::None | Network::Proxy | Network::Observe => None,
    };
    Ok(Survey { root, layers, shares, protections, disk, names })
}

/// Those of `paths` that exist.
fn entries(paths: &[&str]) -> Vec<Entry> {
    paths.iter().filter_map(|path| entry(PathBuf::from(path)).ok()).collect()
}

fn entry(path: PathBuf) -> io::Result<Entry> {
    let looked = looked(&path)?;
    if looked.kind == FileType::Symlink {
        let to = std::fs::read_link(&path)?.into_os_string();
        return Ok(Entry::Link { path, to });
    }
    let file = looked.kind == FileType::RegularFile;
    let stamp = if file { Stamp::of(&path)? } else { None };
    Ok(Entry::Is { path, looked, stamp })
}
