//! The directory in which a chore works and of which nothing remains.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::account::Account;
use crate::trouble::{OrTrouble, Trouble};

/// A directory on a real file system (never `/tmp`, which is often memory and which sandboxes
/// replace), open to every account; `Drop` removes it.
pub(crate) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self, Trouble> {
        let dir = tempfile::Builder::new()
            .prefix("bulkhead-bench.")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/var/tmp")
            .or_trouble(|| "could not make a directory in `/var/tmp`".to_owned())?;
        Ok(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a directory in it, for root.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf, Trouble> {
        let path = self.path().join(name);
        fs::create_dir_all(&path)
            .or_trouble(|| format!("could not make `{}`", path.display()))?;
        Ok(path)
    }

    /// A copy of `program` as `install.sh` lays it: written in one piece.
    pub(crate) fn laid(&self, program: &Path) -> Result<PathBuf, Trouble> {
        let copy = self.path().join("bulkhead");
        let failed = || format!("could not copy `{}`", program.display());
        let bytes = fs::read(program).or_trouble(failed)?;
        fs::write(&copy, bytes).or_trouble(failed)?;
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).or_trouble(failed)?;
        Ok(copy)
    }

    /// Makes a directory in it that belongs to `account`, or to us if there is none.
    pub(crate) fn dir_of(
        &self,
        name: &str,
        account: Option<&Account>,
    ) -> Result<PathBuf, Trouble> {
        let path = self.dir(name)?;
        if let Some(account) = account {
            chown(&path, Some(account.uid), Some(account.gid))
                .or_trouble(|| format!("could not give `{}` away", path.display()))?;
        }
        Ok(path)
    }
}
