//! Names: made, moved, removed, set.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Mode, RenameFlags, Timespec, Timestamps, chmodat, renameat_with,
        symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

use super::Refused;
use crate::protocol::files::{Depth, Onto};

/// For `utimensat`: leave it as it is.
const OMIT: i64 = (1 << 30) - 2;

pub(super) fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

pub(super) fn make_dirs(path: &[u8], mode: u32) -> Result<(), Refused> {
    Ok(fs::DirBuilder::new().recursive(true).mode(mode).create(as_path(path))?)
}

pub(super) fn rename(from: &[u8], to: &[u8], onto: Onto) -> Result<(), Refused> {
    let flags = match onto {
        Onto::Anything => RenameFlags::empty(),
        Onto::Nothing => RenameFlags::NOREPLACE,
    };
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

pub(super) fn remove(path: &[u8], depth: Depth) -> Result<(), Refused> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        other => return Ok(other?),
    }
    match depth {
        Depth::Itself => Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?),
        // Follows no link, whatever is put in its way.
        Depth::Everything => Ok(fs::remove_dir_all(as_path(path))?),
    }
}

pub(super) fn set(
    path: &[u8],
    mode: Option<u32>,
    modified: Option<(i64, u32)>,
) -> Result<(), Refused> {
    if let Some(mode) = mode {
        chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    if let Some(modified) = modified {
        utimensat(CWD, path, &times(modified), AtFlags::empty())?;
    }
    Ok(())
}

/// Only when it was changed.
pub(super) fn times((seconds, nanos): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) },
    }
}

pub(super) fn link(path: &[u8], target: &[u8]) -> Result<(), Refused> {
    Ok(symlinkat(target, CWD, path)?)
}
