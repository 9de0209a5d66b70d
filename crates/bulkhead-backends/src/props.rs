//! Files of ours that sandboxes are made with: the guest, and what containers are shown in the place
//! of other things.
//!
//! Laid once per version of the guest, in the state directory: what lies in a runtime directory
//! often cannot be executed.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::guest::GUEST;

/// Which guest this is, from its content.
const VERSION: &str = env!("BULKHEAD_GUEST_VERSION");

/// What an agent finds in the place of a name that it cannot make.
pub(crate) const NOTE: &str = "This name is protected: what stands here would be run later on the host.\n\
    It cannot be made, changed or moved from inside the sandbox; do not retry.\n\
    Whoever started the sandbox can allow it with: bulkhead run --unprotect NAME\n";

/// The directory that holds them: `guest`, the empty file `blank`, the directory `empty`.
pub(crate) fn lay(state: &Path) -> io::Result<PathBuf> {
    let (all, dir) = (state.join("guest"), dir(state));
    if dir.is_dir() {
        return Ok(dir);
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&all)?;
    let draft = all.join(format!(".{VERSION}-{}", std::process::id()));
    match std::fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir(&draft)?;
    file(&draft.join("guest"), GUEST, 0o555)?;
    file(&draft.join("blank"), b"", 0o444)?;
    std::fs::create_dir(draft.join("empty"))?;
    file(&draft.join("empty/PROTECTED-BY-BULKHEAD"), NOTE.as_bytes(), 0o444)?;
    match std::fs::rename(&draft, &dir) {
        // Somebody else was faster, with the same.
        Err(_) if dir.is_dir() => std::fs::remove_dir_all(&draft).map(|()| dir),
        renamed => renamed.map(|()| dir),
    }
}

fn dir(state: &Path) -> PathBuf {
    state.join("guest").join(VERSION)
}

/// Where the guest is, if it was laid.
pub(crate) fn guest(state: &Path) -> PathBuf {
    dir(state).join("guest")
}

fn file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    // The mask of the caller may have taken bits away, and the sandbox is somebody else.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
