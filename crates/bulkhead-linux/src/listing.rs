//! What is in a directory.
//!
//! The C library keeps the room for each list apart and gives it back to the kernel at once. While a
//! child shares our memory, that interrupts every processor which the child runs on: it takes ten
//! times as long as the list itself.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, statat};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name there.
    pub name: OsString,
    /// What it is; a link is a link.
    pub kind: FileType,
}

impl Listed {
    /// Where it is, for `dir` that it was found in.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.name)
    }
}

/// The entries of `dir` in no order. Those that go while one looks are left out.
pub fn entries(dir: &Path) -> io::Result<impl Iterator<Item = Listed>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut list = Dir::new(open(dir, flags, Mode::empty())?)?;
    Ok(std::iter::from_fn(move || {
        loop {
            let entry = list.read()?.ok()?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut kind = entry.file_type();
            // A filesystem that does not say it in its list.
            if kind == FileType::Unknown {
                match statat(list.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(it) => kind = FileType::from_raw_mode(it.st_mode),
                    Err(_) => continue,
                }
            }
            return Some(Listed { name: OsStr::from_bytes(name.to_bytes()).to_owned(), kind });
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_listed_once_as_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::os::unix::fs::symlink("dir", dir.path().join("link")).unwrap();
        for number in 0..300 {
            std::fs::write(dir.path().join(format!("file {number}")), "").unwrap();
        }
        let mut all: Vec<Listed> = entries(dir.path()).unwrap().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(all.len(), 302);
        assert_eq!(all.first().unwrap().kind, FileType::Directory);
        assert_eq!(all.last().unwrap().kind, FileType::Symlink);
        let files = all.iter().filter(|it| it.kind == FileType::RegularFile).count();
        assert_eq!(files, 300);
        assert!(entries(&dir.path().join("nothing")).is_err());
    }
}
