//! What is known of a file beside its bytes.

use std::{
    ffi::{CStr, CString},
    os::fd::BorrowedFd,
};

use rustix::{
    buffer::spare_capacity,
    fs::{
        AtFlags, Mode, Stat, Timespec, Timestamps, XattrFlags, fchmod, fgetxattr, flistxattr,
        fsetxattr, futimens, utimensat,
    },
    io::Errno,
};

use super::PartKind;

/// The longest list of attributes, or value of one, that the kernel knows.
const LONGEST: usize = 64 << 10;
/// Names that the kernel's overlay reads, if it is told to read those of users.
const OVERLAY: &[u8] = b"user.overlay.";
/// Those of them that say what a directory hides; the others are about where it came from.
const KEPT: [&[u8]; 4] = [
    b"user.overlay.opaque",
    b"user.overlay.whiteout",
    b"user.overlay.whiteouts",
    // The sandbox's own attributes of such names, as the kernel wrote them down.
    b"user.overlay.overlay.",
];

/// Gives `to` the attributes of `from`, then its permissions and times.
pub(super) fn finish(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    stat: &Stat,
    kind: PartKind,
) -> Result<(), Errno> {
    attributes(from, to, kind)?;
    // Nobody on the host is to run as the owner of what a sandbox wrote.
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
    futimens(to, &times(stat))
}

/// Sets the times of what cannot be opened.
pub(super) fn stamp(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Errno> {
    utimensat(dir, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>, kind: PartKind) -> Result<(), Errno> {
    let mut names = Vec::with_capacity(LONGEST);
    match flistxattr(from, spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::NOTSUP) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    for name in names.split(|it| *it == 0).filter(|it| wanted(it, kind)) {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let mut value = Vec::with_capacity(LONGEST);
        fgetxattr(from, &name, spare_capacity(&mut value))?;
        fsetxattr(to, &name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Whether an attribute belongs to the file, and not to a security module or to the overlay.
fn wanted(name: &[u8], kind: PartKind) -> bool {
    if name.starts_with(OVERLAY) {
        // Where there is no overlay, the sandbox wrote it, in order to be read by one.
        return kind == PartKind::Changes && KEPT.iter().any(|it| name.starts_with(it));
    }
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_")
}

#[cfg(test)]
mod tests {
    use super::{PartKind, wanted};

    #[test]
    fn only_what_an_overlay_must_read_is_kept_of_its_notes() {
        assert!(wanted(b"user.mime_type", PartKind::Plain));
        assert!(wanted(b"user.overlay.opaque", PartKind::Changes));
        assert!(!wanted(b"user.overlay.opaque", PartKind::Plain));
        assert!(!wanted(b"user.overlay.redirect", PartKind::Changes));
        assert!(!wanted(b"user.overlay.origin", PartKind::Changes));
        assert!(!wanted(b"security.capability", PartKind::Plain));
        assert!(!wanted(b"trusted.overlay.opaque", PartKind::Changes));
    }
}
