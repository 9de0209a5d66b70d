//! Files that only their owner reads.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

/// What is in `file`, or the default where there is none.
pub(crate) fn read_json<T: DeserializeOwned + Default>(file: &Path) -> io::Result<T> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Either all of `what` is in `file` afterwards, or what was there before.
pub(crate) fn write_json(file: &Path, what: &impl Serialize) -> io::Result<()> {
    let fresh = file.with_extension("new");
    write(&fresh, &serde_json::to_vec_pretty(what)?)?;
    fs::rename(&fresh, file)
}

/// Writes a file, and the directory that it is in.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file =
        File::options().create(true).truncate(true).write(true).mode(0o600).open(file)?;
    file.write_all(bytes)?;
    file.sync_all()
}
