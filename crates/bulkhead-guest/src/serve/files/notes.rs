//! Notes: extended attributes that users of the sandbox write beside their files.

use std::{ffi::CString, os::fd::OwnedFd};

use rustix::{
    buffer::spare_capacity,
    fs::{
        XattrFlags, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, listxattr_query,
    },
    io::Errno,
};

use crate::protocol::files::Notes;

/// How the names of what users write begin.
const USER: &[u8] = b"user.";
/// Those that mean something to a file system.
const OVERLAY: &[u8] = b"user.overlay.";
/// As many bytes of notes as anybody is told.
const MOST: usize = 8 << 10;

/// Names, and what they say.
type Noted = Vec<(Vec<u8>, Vec<u8>)>;

/// What is noted beside what `path` leads to. Nothing where there can be no notes, or where they are
/// longer than anybody reads.
pub(super) fn of(path: &[u8]) -> Noted {
    read(path).unwrap_or_default()
}

fn read(path: &[u8]) -> Result<Noted, Errno> {
    // Most files have none, and for those this is all.
    if listxattr_query(path)? == 0 {
        return Ok(Vec::new());
    }
    let mut names = Vec::with_capacity(MOST);
    listxattr(path, spare_capacity(&mut names))?;
    let mut left = MOST;
    let mut notes = Vec::new();
    for name in names.split(|it| *it == 0).filter(|it| is_note(it)) {
        let mut value = Vec::with_capacity(MOST);
        getxattr(path, &*text(name)?, spare_capacity(&mut value))?;
        left = left.checked_sub(name.len() + value.len()).ok_or(Errno::RANGE)?;
        notes.push((name.to_vec(), value));
    }
    notes.sort();
    Ok(notes)
}

/// Writes `notes` beside an open file, in place of those that begin alike.
pub(super) fn replace(file: &OwnedFd, notes: &Notes) -> Result<(), Errno> {
    let mut names = Vec::with_capacity(64 << 10);
    match flistxattr(file, spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::NOTSUP) if notes.all.is_empty() => return Ok(()),
        Err(errno) => return Err(errno),
    }
    let stays = |name: &[u8]| notes.all.iter().any(|(it, _)| it == name);
    for name in names.split(|it| *it == 0) {
        if is_note(name) && name.starts_with(&notes.prefix) && !stays(name) {
            fremovexattr(file, &*text(name)?)?;
        }
    }
    for (name, value) in &notes.all {
        if !is_note(name) {
            return Err(Errno::INVAL);
        }
        fsetxattr(file, &*text(name)?, value, XattrFlags::empty())?;
    }
    Ok(())
}

fn is_note(name: &[u8]) -> bool {
    name.starts_with(USER) && !name.starts_with(OVERLAY)
}

fn text(name: &[u8]) -> Result<CString, Errno> {
    CString::new(name).map_err(|_| Errno::INVAL)
}
