//! Paths without links.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, open, readlink};

/// Where `path` leads, without links.
///
/// The same as [`Path::canonicalize`], which asks about each part of the path and takes memory from
/// the C library and gives it back each time. While a child that shares our memory runs elsewhere,
/// giving memory back interrupts it.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // Without `/proc`, the long way.
    name_of(&found).map_or_else(|| path.canonicalize(), Ok)
}

fn name_of(file: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let name = readlink(link, Vec::with_capacity(256)).ok()?.into_bytes();
    // What is gone by now, or is nowhere in our tree, has no name.
    let named = name.starts_with(b"/") && !name.ends_with(b" (deleted)");
    named.then(|| PathBuf::from(OsString::from_vec(name)))
}
