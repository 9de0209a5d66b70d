//! What a stand-in is made of, and how it is known again.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Write as _},
    mem::MaybeUninit,
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
        AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, Timespec, Timestamps,
        futimens, linkat, mknodat, open, renameat_with,
    },
    io::Errno,
};

use crate::workspace::protect::How;

/// The permissions by which we know our own: nobody makes a socket or an empty directory with them.
/// They are there from the first moment, however soon after that we are killed.
const MODE: u32 = 0o1500;
/// Those of a directory: only one that can be written to can be moved.
const DIR_MODE: u32 = 0o1700;
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

/// Where stand-ins come from and go to: to make a socket or a directory, and to remove it for good,
/// takes a filesystem ten times as long as to give one that exists another name.
#[derive(Debug)]
pub(super) struct Kit {
    dir: PathBuf,
    material: Material,
    /// A socket on the filesystem of the workspace, where that is not the kit's.
    first: Option<PathBuf>,
}

/// The most directories that wait in a kit for the next sandboxes.
const SPARE: [&str; 4] = ["git-0", "git-1", "git-2", "git-3"];

impl Kit {
    /// The one in `dir`, which need not exist.
    pub(super) fn at(dir: PathBuf, material: Material) -> Self {
        Self { dir, material, first: None }
    }

    /// Puts a stand-in at `path`, or finds one there.
    pub(super) fn put(&mut self, path: &Path, how: How) -> io::Result<()> {
        let put = match how {
            How::AbsentGit => self.git_dir(path),
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

    /// Removes the stand-in at `path`, if it is one.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let found = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if !looks_ours(path, How::absent(path), &found) {
            return Ok(());
        }
        if !found.is_dir() {
            return std::fs::remove_file(path);
        }
        for spare in SPARE.map(|it| self.dir.join(it)) {
            match rename(path, &spare) {
                // Somebody has put something into it since we looked.
                Ok(()) if !is_empty(&spare) => return Ok(rename(&spare, path)?),
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(_) => break,
            }
        }
        std::fs::remove_dir(path)
    }

    fn git_dir(&self, path: &Path) -> io::Result<()> {
        for spare in SPARE.map(|it| self.dir.join(it)) {
            match rename(&spare, path) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                Err(Errno::NOENT) => {}
                // Another filesystem, or one that cannot do it.
                Err(_) => break,
            }
        }
        dir(path)
    }

    fn socket(&mut self, path: &Path) -> io::Result<()> {
        let own = self.dir.join("socket");
        for source in [Some(&own), self.first.as_ref()].into_iter().flatten() {
            match linked(source, path) {
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
        self.first = Some(path.to_owned());
        // For the next ones; where it cannot be, they make their own.
        linked(path, &own).unwrap_or_default();
        Ok(())
    }
}

fn linked(from: &Path, to: &Path) -> Result<(), Errno> {
    linkat(CWD, from, CWD, to, AtFlags::empty())
}

/// Gives it another name that nothing else has.
fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

fn is_empty(dir: &Path) -> bool {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(dir) = open(dir, flags, Mode::empty()) else { return false };
    let mut space = [const { MaybeUninit::uninit() }; 1024];
    let mut entries = RawDir::new(dir, &mut space);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|it| matches!(it.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}

fn dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(DIR_MODE).create(path)
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
        mode | 0o700 == DIR_MODE && is_empty(path)
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
