//! Files of ours that sandboxes are made with: the guest, and what containers are shown in the place
//! of other things.
//!
//! Laid once per version of the guest, in the state directory: what lies in a runtime directory
//! often cannot be executed.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use crate::guest::GUEST;

/// Which guest this is, from its content.
const VERSION: &str = env!("BULKHEAD_GUEST_VERSION");

/// How the name of a directory begins that is not whole.
const DRAFT: &str = ".";

/// What an agent finds in the place of a name that it cannot make.
pub(crate) const NOTE: &str = "This name is protected: what stands here would be run later on the host.\n\
    It cannot be made, changed or moved from inside the sandbox; do not retry.\n\
    Whoever started the sandbox can allow it with: bulkhead run --unprotect NAME\n";

/// The directory that holds them: `guest`, the empty file `blank`, the directory `empty`.
pub(crate) fn lay(state: &Path) -> io::Result<PathBuf> {
    let dir = dir(state);
    lay_in(&dir, |draft| {
        file(&draft.join("guest"), GUEST, 0o555)?;
        file(&draft.join("blank"), b"", 0o444)?;
        directory(&draft.join("empty"))?;
        file(&draft.join("empty/PROTECTED-BY-BULKHEAD"), NOTE.as_bytes(), 0o444)
    })?;
    Ok(dir)
}

/// Lays the directory `dir`, with what `fill` puts there: whole or not at all, and once.
pub(crate) fn lay_in(dir: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let (Some(all), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(all)?;
    // One at a time: so whatever draft is there was left by somebody who was killed.
    let turn = File::open(all)?;
    flock(&turn, FlockOperation::LockExclusive)?;
    if dir.is_dir() {
        return Ok(());
    }
    remove_drafts(all)?;
    let draft = all.join(format!("{DRAFT}{}", name.to_string_lossy()));
    directory(&draft)?;
    fill(&draft)?;
    std::fs::rename(&draft, dir)
}

fn remove_drafts(all: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(all)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn dir(state: &Path) -> PathBuf {
    state.join("guest").join(VERSION)
}

/// Where the guest is, if it was laid.
pub(crate) fn guest(state: &Path) -> PathBuf {
    dir(state).join("guest")
}

/// Makes a directory that is there for good.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)?;
    // As for files.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// Writes a file that is there for good.
pub(crate) fn file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    // The mask of the caller may have taken bits away, and the sandbox is somebody else.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{GUEST, VERSION, guest, lay};

    #[test]
    fn it_is_laid_once_and_what_a_killed_one_left_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let (draft, other) =
            (state.path().join("guest").join(".old-77"), state.path().join("guest/other"));
        fs::create_dir_all(&draft).unwrap();
        fs::write(draft.join("guest"), "half").unwrap();
        fs::create_dir(&other).unwrap();
        let dir = lay(state.path()).unwrap();
        assert_eq!(dir, state.path().join("guest").join(VERSION));
        assert_eq!(fs::read(guest(state.path())).unwrap(), GUEST);
        assert!(!draft.exists() && other.is_dir());
        assert_eq!(lay(state.path()).unwrap(), dir);
    }

    #[test]
    fn many_who_lay_it_at_once_all_find_it_whole() {
        let state = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    lay(state.path()).unwrap();
                    assert_eq!(fs::read(guest(state.path())).unwrap(), GUEST);
                });
            }
        });
        assert_eq!(fs::read_dir(state.path().join("guest")).unwrap().count(), 1);
    }
}
