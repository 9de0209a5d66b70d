//! The private directories of the sandbox.

use std::{
    ffi::{CString, OsString},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::ffi::OsStringExt as _,
    path::PathBuf,
};

use bulkhead_linux::mounts::{Inode, look};

use crate::protocol::{Disk, Expected};

/// A path from its bytes.
pub(super) fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Makes files that are not there yet, and the directories that they are in.
pub(super) fn make(files: &[(Vec<u8>, Vec<u8>)]) -> io::Result<()> {
    for (name, content) in files {
        let path = path(name.clone());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file?.write_all(content)?;
    }
    Ok(())
}

/// Whether each thing is the one that the host has looked at.
pub(super) fn compare(expected: Vec<Expected>) -> io::Result<()> {
    for Expected { at, device, number } in expected {
        let at = CString::new(at).map_err(io::Error::other)?;
        if look(&at)?.inode != (Inode { device, number }) {
            return Err(io::Error::other("something else was put in its place meanwhile"));
        }
    }
    Ok(())
}

/// Whether every one of `places` has room left, for bytes and for files.
pub(super) fn room_left(places: &[PathBuf]) -> Disk {
    let full = places.iter().any(|place| {
        rustix::fs::statvfs(place).is_ok_and(|it| {
            let sized = it.f_blocks != 0;
            // gVisor counts no files.
            let counted = it.f_files != 0;
            sized && (it.f_bavail == 0 || counted && it.f_favail == 0)
        })
    });
    if full { Disk::Full } else { Disk::Room }
}
