//! What of the host is shown, and what is laid over it.

use std::path::{Path, PathBuf};

use bulkhead_spec::Access;

use super::{Found, Shown};
use crate::workspace::protect::{How, Protection};

/// Something that the daemon is to show inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) struct Mount {
    pub(in crate::container) source: PathBuf,
    pub(in crate::container) target: PathBuf,
    pub(in crate::container) access: Access,
    pub(in crate::container) reach: Reach,
}

/// What of a directory is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::container) enum Reach {
    /// With everything that is mounted in it.
    Whole,
    /// Without: many a daemon shows those writable though it was told otherwise.
    Alone,
}

impl Mount {
    pub(super) fn read_only(source: PathBuf, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().to_owned();
        Self { source, target, access: Access::ReadOnly, reach: Reach::Alone }
    }

    pub(super) fn read_write(source: PathBuf, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().to_owned();
        Self { source, target, access: Access::ReadWrite, reach: Reach::Whole }
    }
}

/// What the plan shares. What is private has been laid over a copy of its own by now.
pub(super) fn shares(found: &Found) -> impl Iterator<Item = Mount> {
    found.shares.iter().map(|it| match it.access {
        Access::ReadOnly => Mount::read_only(it.source.clone(), &it.to),
        Access::ReadWrite | Access::Private => Mount::read_write(it.source.clone(), &it.to),
    })
}

/// What must stay as it is, or look empty.
pub(super) fn protections(found: &Found) -> impl Iterator<Item = Mount> {
    found.protections.iter().filter_map(|Protection { path, how }| {
        let itself = || source(&found.shares, path);
        Some(match how {
            How::Pin | How::Reopen => Mount::read_write(itself()?, path),
            How::ReadOnly | How::Absent | How::AbsentGitFile => {
                Mount::read_only(itself()?, path)
            }
            How::AbsentGit => Mount::read_only(found.props.join("empty"), path),
            How::Hidden => Mount::read_only(found.props.join("blank"), path),
        })
    })
}

/// Without those that a later one would cover: a daemon takes one for each place. Of two
/// protections of a name the stronger is the later.
pub(super) fn uncovered(mounts: Vec<Mount>) -> Vec<Mount> {
    let mut left: Vec<Mount> = Vec::with_capacity(mounts.len());
    for mount in mounts {
        left.retain(|it| it.target != mount.target);
        left.push(mount);
    }
    left
}

/// Where the daemon finds what the sandbox sees at `path`: in the innermost share that holds it.
fn source(shares: &[Shown], path: &Path) -> Option<PathBuf> {
    let holders = shares.iter().filter(|it| path.starts_with(&it.to));
    let share = holders.max_by_key(|it| it.to.components().count())?;
    let rest = path.strip_prefix(&share.to).ok()?;
    let whole = rest.as_os_str().is_empty();
    Some(if whole { share.source.clone() } else { share.source.join(rest) })
}
