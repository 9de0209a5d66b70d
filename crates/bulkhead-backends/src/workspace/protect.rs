//! Which files of a live workspace must stay as they are, and which must not be seen.

mod git;
mod names;
mod secrets;

use std::{
    io,
    path::{Path, PathBuf},
};

use bulkhead_policy::{HOME_TRIGGERS, WORKSPACE_TRIGGERS};
use bulkhead_spec::{Access, Workspace, escape_bytes};
use rustix::fs::FileType;

use self::names::Names;
use super::{
    share::{Share, hides_secrets, looked},
    stand_in,
};
use crate::BackendError;

/// One thing to do to a path of the host that a sandbox sees at the same path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Protection {
    pub(crate) path: PathBuf,
    pub(crate) how: How,
}

/// What to do to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// It can be changed, but neither moved nor removed: something in it is protected.
    Pin,
    /// It can be changed though what holds it cannot; it can neither be moved nor removed.
    Reopen,
    /// It can be read and nothing else.
    ReadOnly,
    /// It is absent, and stays so: something that nobody can use stands in its place.
    Absent,
    /// It is absent, and stays so: an empty directory stands in its place, because git takes
    /// anything else called `.git` for a broken repository.
    AbsentGit,
    /// It is absent, and stays so: a file that says the same as its absence stands in its place,
    /// because git reads it whatever it is, and complains.
    AbsentGitFile,
    /// It looks empty.
    Hidden,
}

impl How {
    /// What to do about a name that is not there.
    pub(crate) fn absent(path: &Path) -> Self {
        if path.ends_with("commondir") || path.ends_with("info/attributes") {
            Self::AbsentGitFile
        } else if path.ends_with(".git") {
            Self::AbsentGit
        } else {
            Self::Absent
        }
    }

    /// Whether something must stand in the place.
    pub(crate) fn is_absent(self) -> bool {
        matches!(self, Self::Absent | Self::AbsentGit | Self::AbsentGitFile)
    }
}

/// What was found in a workspace.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Git directories outside the workspace that belong to it.
    pub(crate) shares: Vec<Share>,
    /// In the order in which they are to be done.
    pub(crate) protections: Vec<Protection>,
}

/// Looks for everything in `workspace` that needs protection; `home` is the home directory, which
/// the workspace may be.
pub(crate) fn find(workspace: &Workspace, home: &Path) -> Result<Found, BackendError> {
    let dir = workspace.dir.as_path();
    let names = Names::of(dir);
    let mut found = Found::default();
    if workspace.access == Access::ReadWrite {
        for trigger in WORKSPACE_TRIGGERS {
            if !spared(workspace, trigger) {
                protect_first(dir, &names, trigger, &mut found.protections)?;
            }
        }
        for trigger in HOME_TRIGGERS {
            let is_there =
                || !names.lack(trigger) && dir.join(trigger).symlink_metadata().is_ok();
            if (home == dir || is_there()) && !spared(workspace, trigger) {
                protect_first(dir, &names, trigger, &mut found.protections)?;
            }
        }
    }
    if !spared(workspace, ".git") {
        git::protect(workspace, &names, &mut found)?;
    }
    if hides_secrets(workspace) {
        secrets::hide(dir, &mut found.protections);
    }
    // Outer before inner: a mount hides what was mounted below it before.
    let depth = |it: &Protection| {
        it.path.as_os_str().as_encoded_bytes().split(|it| *it == b'/').count()
    };
    found.protections.sort_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| a.cmp(b)));
    found.protections.dedup_by(|later, first| {
        later.path == first.path && (later.how == How::Pin || later.how == first.how)
    });
    Ok(found)
}

/// Whether the caller said by name that `trigger` needs no protection.
fn spared(workspace: &Workspace, trigger: &str) -> bool {
    let trigger = Path::new(trigger);
    workspace.unprotected.iter().any(|it| trigger.starts_with(it))
}

/// Protects `trigger` below `dir`, in which there are `names`.
fn protect_first(
    dir: &Path,
    names: &Names,
    trigger: &str,
    protections: &mut Vec<Protection>,
) -> Result<(), BackendError> {
    let first = trigger.split('/').next().unwrap_or(trigger);
    if !names.lack(first) {
        return protect(dir, Path::new(trigger), protections);
    }
    let path = dir.join(first);
    let how = How::absent(&path);
    protections.push(Protection { path, how });
    Ok(())
}

/// Protects `name` below `dir`, with every directory on the way.
fn protect(
    dir: &Path,
    name: &Path,
    protections: &mut Vec<Protection>,
) -> Result<(), BackendError> {
    let mut path = dir.to_owned();
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let kind = match looked(&path) {
            // Another sandbox keeps the name from being made; it may end before this one.
            Ok(_) if stand_in::is_one(&path) => None,
            Ok(looked) => Some(looked.kind),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused(&path, error.to_string())),
        };
        let how = match (kind, parts.peek()) {
            (Some(FileType::Directory), Some(_)) => How::Pin,
            (Some(FileType::Directory | FileType::RegularFile), _) => How::ReadOnly,
            (Some(FileType::Symlink), _) => {
                let why = "it is a symbolic link and could be replaced; name the workspace read-only, \
                    or spare it with --unprotect";
                return Err(refused(&path, why.to_owned()));
            }
            (Some(_), _) => {
                return Err(refused(&path, "it is neither a directory nor a file".to_owned()));
            }
            (None, _) => How::absent(&path),
        };
        protections.push(Protection { path: path.clone(), how });
        if how != How::Pin {
            break;
        }
    }
    Ok(())
}

fn refused(path: &Path, why: String) -> BackendError {
    let path = escape_bytes(path.as_os_str().as_encoded_bytes());
    BackendError::Share { path, why }
}
