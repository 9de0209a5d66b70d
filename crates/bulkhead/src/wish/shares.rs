//! What is to be shared, looked up on the host.

use std::path::{Path, PathBuf};

use bulkhead_spec::{GuestPath, HostPath, Mount};

use crate::{codes::Code, config::shown, failure::Failure, share::Share};

/// What paths are relative to.
pub(super) struct Place {
    /// What `~` means.
    pub(super) home: Option<PathBuf>,
    /// The directory that is worked on, and that a sandbox may have written to.
    pub(super) workspace: Option<PathBuf>,
}

impl Place {
    /// The mount that `share` asks for.
    ///
    /// A link is followed once, here, so that what the policy judges is what is mounted. A link
    /// in the workspace that leads out of it is refused: an earlier run may have laid it.
    pub(super) fn resolve(&self, share: &Share) -> Result<Mount, Failure> {
        let named = self.absolute(&share.from)?;
        let real = named.canonicalize().map_err(|error| failed(share, error))?;
        if self.is_misled(&named) && !self.is_in_workspace(&real) {
            return Err(failed(
                share,
                format!("it leads out of the workspace, to `{}`", shown(&real)),
            )
            .hint(format!("if that is what you want, name `{}` itself", shown(&real))));
        }
        let kind = real.metadata().map_err(|error| failed(share, error))?;
        if !kind.is_dir() && !kind.is_file() {
            // A socket answers through a read-only mount too.
            return Err(failed(share, "it is neither a directory nor a regular file"));
        }
        let to = match &share.to {
            Some(to) => GuestPath::try_from(to.clone()),
            None => GuestPath::try_from(named).or_else(|_| GuestPath::try_from(real.clone())),
        };
        let to = to.map_err(|error| failed(share, error))?;
        let from = HostPath::try_from(real).map_err(|error| failed(share, error))?;
        Ok(Mount { from, to, access: share.access })
    }

    fn is_in_workspace(&self, path: &Path) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| path.starts_with(workspace))
    }

    /// Whether there is a link on the way that lies in the workspace.
    fn is_misled(&self, path: &Path) -> bool {
        let mut way = PathBuf::new();
        path.components().any(|part| {
            let here = way.canonicalize().unwrap_or_default();
            way.push(part);
            self.is_in_workspace(&here) && way.is_symlink()
        })
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf, Failure> {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => Ok(home.join(rest)),
            (Ok(_), None) | (Err(_), _) => std::path::absolute(path).map_err(|error| {
                let what = format!("cannot share `{}`", shown(path));
                Failure::new(Code::Share, what).because(error)
            }),
        }
    }
}

fn failed(share: &Share, why: impl ToString) -> Failure {
    Failure::new(Code::Share, format!("cannot share `{}`", shown(&share.from))).because(why)
}
