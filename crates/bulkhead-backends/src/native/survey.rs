//! What is on this host, as far as a plan touches it.
//!
//! The survey looks and decides nothing. It notes which inode each path led to, and the sandbox is
//! built from exactly those, whatever the paths say by then.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use bulkhead_linux::mounts::Looked;
use bulkhead_policy::Plan;
use bulkhead_spec::{Access, Root};
use rustix::fs::FileType;

use super::root;
use crate::{
    BackendError,
    workspace::{
        protect::{self, Protection},
        share::{Share, looked, share},
    },
};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// The host's own programs and settings; empty for another root.
    pub(super) own: Vec<Entry>,
    /// The other root.
    pub(super) root: Option<Share>,
    /// Devices.
    pub(super) devices: Vec<Entry>,
    /// What the plan shares, outer directories first.
    pub(super) shares: Vec<Share>,
    /// What must stay as it is within them.
    pub(super) protections: Vec<Protection>,
    /// Paths of `/proc` that this kernel has.
    pub(super) proc: Vec<(PathBuf, FileType)>,
}

/// One path of the host's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A file or directory.
    Is { path: PathBuf, looked: Looked },
    /// A symbolic link.
    Link { path: PathBuf, to: OsString },
}

/// Looks at everything that `plan` touches.
pub(super) fn survey(plan: &Plan) -> Result<Survey, BackendError> {
    let (own, root) = match plan.root() {
        Root::Host => (own(), None),
        Root::Directory(dir) => {
            let root = share(dir.as_path(), Path::new("/"), Access::Private)?;
            (Vec::new(), Some(root))
        }
        Root::Image(_) => {
            let what = "a sandbox from an image";
            return Err(BackendError::Unsupported { backend: "native", what });
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
    let proc =
        root::HIDDEN_IN_PROC.iter().chain(&root::EMPTY_IN_PROC).chain(&root::READ_ONLY_IN_PROC);
    Ok(Survey {
        own,
        root,
        devices: entries(&root::DEVICES),
        shares,
        protections,
        proc: proc
            .filter_map(|path| Some((PathBuf::from(path), looked(Path::new(path)).ok()?.kind)))
            .collect(),
    })
}

fn own() -> Vec<Entry> {
    let mut found = entries(&root::PROGRAMS);
    found.extend(entries(&root::SETTINGS));
    found
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
    Ok(Entry::Is { path, looked })
}
