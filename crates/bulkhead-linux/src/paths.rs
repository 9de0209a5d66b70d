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

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2, readlink};

/// Where `path` leads, without links.
///
/// The same as [`Path::canonicalize`], which asks about each part of the path and takes memory from
/// the C library and gives it back each time. While a child that shares our memory runs elsewhere,
/// giving memory back interrupts it.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    if is_itself(path) {
        return Ok(path.to_owned());
    }
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // Without `/proc`, the long way.
    name_of(&found).map_or_else(|| path.canonicalize(), Ok)
}

/// Whether `path` is there and is written without links, and without ways back and needless parts: to
/// be told so takes the kernel less than to write its name.
fn is_itself(path: &Path) -> bool {
    let Some(parts) = path.as_os_str().as_encoded_bytes().strip_prefix(b"/") else {
        return false;
    };
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    let resolve = ResolveFlags::NO_SYMLINKS;
    parts.split(|it| *it == b'/').all(plain)
        && openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).is_ok()
}

fn name_of(file: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let name = readlink(link, Vec::with_capacity(256)).ok()?.into_bytes();
    // What is gone by now, or is nowhere in our tree, has no name.
    let named = name.starts_with(b"/") && !name.ends_with(b" (deleted)");
    named.then(|| PathBuf::from(OsString::from_vec(name)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::real;

    #[test]
    fn a_path_without_links_is_itself_and_every_other_leads_there() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        fs::create_dir(top.join("dir")).unwrap();
        fs::write(top.join("dir/file"), "").unwrap();
        symlink("dir", top.join("link")).unwrap();
        for path in ["dir/file", "link/file", "dir/../dir/file", "./dir//file"] {
            assert_eq!(real(&top.join(path)).unwrap(), top.join("dir/file"), "{path}");
        }
        assert_eq!(real(&top.join("dir/")).unwrap().as_os_str(), top.join("dir").as_os_str());
        assert_eq!(real(Path::new("/")).unwrap(), Path::new("/"));
        assert!(real(&top.join("absent")).is_err());
    }
}
