//! What a stand-in is made of, and how it is known again.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{
            DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, futimens, linkat, mknodat,
        open,
    },
    io::Errno,
};

use crate::workspace::protect::How;

/// The permissions by which we know our own: nobody makes a socket or an empty directory with them.
/// They are there from the first moment, however soon after that we are killed.
const MODE: u32 = 0o1500;
/// The permissions and the time by which we know a file as our own.
const FILE_MODE: u32 = 0o444;
const TIME: i64 = 315_532_842;

/// What a file of git says that means the same as if it were absent.
fn absence(path: &Path) -> &'static [u8] {
    // Any other `commondir` leads git elsewhere, an empty one into an error.
    if path.ends_with("commondir") { b".\n" } else { b"" }
}

/// What stands in the place of something that git does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Material {
    /// A socket, to which the next ones are links.
    Socket,
    /// An empty directory, for sandboxes of which some part opens what it mounts.
    Directory,
}

/// The first stand-in of a run, to which the others are links.
pub(super) struct First {
    material: Material,
    path: Option<PathBuf>,
}

impl First {
    pub(super) fn of(material: Material) -> Self {
        Self { material, path: None }
    }

    /// Puts a stand-in at `path`, or finds one there.
    pub(super) fn put(&mut self, path: &Path, how: How) -> io::Result<()> {
        let put = match how {
            How::AbsentGit => dir(path),
            How::AbsentGitFile => git_file(path),
            How::Absent | How::Pin | How::Reopen | How::ReadOnly | How::Hidden => {
                match self.material {
                    Material::Socket => self.socket(path),
                    Material::Directory => dir(path),
                }
            }
        };
        match put {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if is_ours(path, how) {
                    Ok(())
                } else {
                    Err(io::Error::other("something else was made in its place"))
                }
            }
            put => put,
        }
    }

    fn socket(&mut self, path: &Path) -> io::Result<()> {
        if let Some(first) = &self.path {
            match linkat(CWD, first, CWD, path, AtFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // A filesystem without links, or another one: a socket of its own then.
                Err(_) => {}
            }
        }
        match mknodat(CWD, path, FileType::Socket, Mode::from(MODE), 0) {
            Ok(()) => {}
            // A filesystem without sockets.
            Err(Errno::PERM | Errno::OPNOTSUPP) => return dir(path),
            Err(errno) => return Err(errno.into()),
        }
        self.path = Some(path.to_owned());
        Ok(())
    }
}

fn dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(MODE).create(path)
}

/// Makes the file without a name, and gives it one when it is done: half of one would lead git astray
/// were we killed at that moment, and nobody would know it as ours.
fn git_file(path: &Path) -> io::Result<()> {
    let dir = path.parent().ok_or(Errno::INVAL)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(dir, flags, Mode::from(FILE_MODE)) {
        Ok(file) => {
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            fill(file.into(), path)
                .and_then(|_file| Ok(linkat(CWD, name, CWD, path, AtFlags::SYMLINK_FOLLOW)?))
        }
        // A filesystem without such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let new =
                OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
            fill(new?, path).map(drop)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn fill(mut file: File, path: &Path) -> io::Result<File> {
    file.write_all(absence(path))?;
    let time = Timespec { tv_sec: TIME, tv_nsec: 0 };
    futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    Ok(file)
}

/// Whether what is at `path` is a stand-in of ours, with nothing in it.
pub(super) fn is_ours(path: &Path, how: How) -> bool {
    path.symlink_metadata().is_ok_and(|found| looks_ours(path, how, &found))
}

fn looks_ours(path: &Path, how: How, found: &Metadata) -> bool {
    // The mask of the caller may have taken bits away.
    let mode = found.mode() & 0o7777;
    if found.is_dir() {
        mode | 0o500 == MODE && std::fs::read_dir(path).is_ok_and(|mut it| it.next().is_none())
    } else if found.file_type().is_socket() {
        mode | 0o500 == MODE
    } else {
        let says = || std::fs::read(path).is_ok_and(|it| it == absence(path));
        let ours = mode | 0o444 == FILE_MODE && found.mtime() == TIME;
        how == How::AbsentGitFile && ours && says()
    }
}

/// Whether what is at `path` is a stand-in, be it of another sandbox.
pub(crate) fn is_one(path: &Path) -> bool {
    is_ours(path, How::absent(path))
}

/// Removes the stand-in at `path`, if it is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !looks_ours(path, How::absent(path), &found) {
        return Ok(());
    }
    if found.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
}
