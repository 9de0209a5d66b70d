//! What tells the machine of a container from others: files that it is shown.

use std::{
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use bulkhead_policy::Nameplate;

/// The file that says which machine it is.
pub(super) const MACHINE: &str = "machine-id";
/// The file that says since when it runs.
pub(super) const BOOT: &str = "boot-id";

/// The files of one container for which nothing is mounted on this host. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Plate {
    dir: PathBuf,
}

impl Plate {
    /// Where those of the sandbox `id` are.
    pub(super) fn place(state: &Path, id: &str) -> PathBuf {
        state.join("plates").join(id)
    }

    /// Writes them to `dir`.
    pub(super) fn lay(dir: PathBuf, plate: &Nameplate) -> io::Result<Self> {
        let laid = Self { dir };
        write(&laid.dir, plate)?;
        Ok(laid)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Plate {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.dir) {
            // The record stays for as long, so the next start tries again.
            tracing::warn!(dir = %self.dir.display(), %error, "a nameplate was left");
        }
    }
}

/// Writes the files of `plate` to `dir`, which is made.
pub(super) fn write(dir: &Path, plate: &Nameplate) -> io::Result<()> {
    let Nameplate { host: _, machine, boot } = plate;
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    for (name, text) in [(MACHINE, machine), (BOOT, boot)] {
        let path = dir.join(name);
        std::fs::write(&path, format!("{text}\n"))?;
        // Whatever our mask: everybody inside reads them.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444))?;
    }
    Ok(())
}

/// Removes the files in `dir`.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
