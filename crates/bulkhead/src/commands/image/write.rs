//! Files that are written into a project: an agent may have been there before.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Writes `text` to `dir/below/name`, whole or not at all.
///
/// A link on the way could lead out of the project, so none is followed below `dir`.
pub(super) fn put(dir: &Path, below: Option<&str>, name: &str, text: &str) -> io::Result<()> {
    let parent = match below {
        None => dir.to_owned(),
        Some(below) => made(dir.join(below))?,
    };
    let path = parent.join(name);
    let fresh = parent.join(format!(".{name}.{}.new", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&fresh)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        // Replaces a link itself and not what it leads to.
        .and_then(|()| fs::rename(&fresh, &path));
    if written.is_err() && fresh.symlink_metadata().is_ok() {
        fs::remove_file(&fresh)?;
    }
    written
}

fn made(dir: PathBuf) -> io::Result<PathBuf> {
    match fs::create_dir(&dir) {
        Ok(()) => Ok(dir),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if dir.symlink_metadata()?.is_dir() {
                return Ok(dir);
            }
            Err(io::Error::other("it is no directory of its own"))
        }
        Err(error) => Err(error),
    }
}
