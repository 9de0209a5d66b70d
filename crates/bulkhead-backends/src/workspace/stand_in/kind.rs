//! What a stand-in is made of, and how it is known again.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, Stat, Timespec, Timestamps,
        futimens, linkat, mkdirat, mknodat, open, openat, renameat_with, statat, unlinkat,
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

/// Where a stand-in is, or is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    /// The directory that holds it: there are many in one, and each of their names is looked up
    /// several times.
    dir: BorrowedFd<'a>,
    /// Its name there.
    name: &'a Path,
    /// All of its path.
    path: &'a Path,
}

impl<'a> Spot<'a> {
    /// `path`, which lies in `dir`.
    pub(super) fn within(dir: BorrowedFd<'a>, path: &'a Path) -> Self {
        match path.file_name() {
            Some(name) => Self { dir, name: Path::new(name), path },
            None => Self::of(path),
        }
    }

    /// `path`, wherever it lies.
    fn of(path: &'a Path) -> Self {
        Self { dir: CWD, name: path, path }
    }

    fn look(self) -> Result<Stat, Errno> {
        statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Where stand-ins come from and go to: to make a socket or a directory, and to remove it for good,
/// takes a filesystem ten times as long as to give one that exists another name.
#[derive(Debug)]
pub(super) struct Kit {
    /// `None` where there is none to be had.
    dir: Option<OwnedFd>,
    material: Material,
    /// A socket on the filesystem of the workspace, where that is not the kit's.
    first: Option<PathBuf>,
}

/// The socket of a kit.
const SOCKET: &str = "socket";
/// The most directories that wait in a kit for the next sandboxes.
const SPARE: [&str; 4] = ["git-0", "git-1", "git-2", "git-3"];

impl Kit {
    /// The one in `dir`, which need not exist.
    pub(super) fn at(dir: &Path, material: Material) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self { dir: open(dir, flags, Mode::empty()).ok(), material, first: None }
    }

    fn spot<'a>(&'a self, name: &'a str) -> Option<Spot<'a>> {
        let path = Path::new(name);
        self.dir.as_ref().map(|dir| Spot { dir: dir.as_fd(), name: path, path })
    }

    /// Puts a stand-in at `spot`, or finds one there.
    pub(super) fn put(&mut self, spot: Spot<'_>, how: How) -> io::Result<()> {
        let put = match how {
            How::AbsentGit => self.git_dir(spot),
            How::AbsentGitFile => git_file(spot),
            How::Absent | How::Pin | How::Reopen | How::ReadOnly | How::Hidden => {
                match self.material {
                    Material::Socket => self.socket(spot),
                    Material::Directory => dir(spot),
                }
            }
        };
        match put {
            Err(Errno::EXIST) => {
                if is_ours(spot, how) {
                    Ok(())
                } else {
                    Err(io::Error::other("something else was made in its place"))
                }
            }
            put => Ok(put?),
        }
    }

    /// Removes the stand-in at `spot`, if it is one.
    pub(super) fn remove(&self, spot: Spot<'_>) -> io::Result<()> {
        let found = match spot.look() {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        if !looks_ours(spot, How::absent(spot.path), &found) {
            return Ok(());
        }
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            return Ok(unlinkat(spot.dir, spot.name, AtFlags::empty())?);
        }
        for spare in SPARE.iter().filter_map(|it| self.spot(it)) {
            match rename(spot, spare) {
                // Somebody has put something into it since we looked.
                Ok(()) if !is_empty(spare) => return Ok(rename(spare, spot)?),
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(_) => break,
            }
        }
        Ok(unlinkat(spot.dir, spot.name, AtFlags::REMOVEDIR)?)
    }

    fn git_dir(&self, spot: Spot<'_>) -> Result<(), Errno> {
        for spare in SPARE.iter().filter_map(|it| self.spot(it)) {
            match rename(spare, spot) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST),
                Err(Errno::NOENT) => {}
                // Another filesystem, or one that cannot do it.
                Err(_) => break,
            }
        }
        dir(spot)
    }

    fn socket(&mut self, spot: Spot<'_>) -> Result<(), Errno> {
        let own = self.spot(SOCKET);
        for source in [own, self.first.as_deref().map(Spot::of)].into_iter().flatten() {
            match linked(source, spot) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST),
                // A filesystem without links, or another one: a socket of its own then.
                Err(_) => {}
            }
        }
        match mknodat(spot.dir, spot.name, FileType::Socket, Mode::from(MODE), 0) {
            Ok(()) => {}
            // A filesystem without sockets.
            Err(Errno::PERM | Errno::OPNOTSUPP) => return dir(spot),
            Err(errno) => return Err(errno),
        }
        // For the next ones; where it cannot be, they make their own.
        if let Some(own) = own {
            linked(spot, own).unwrap_or_default();
        }
        self.first = Some(spot.path.to_owned());
        Ok(())
    }
}

fn linked(from: Spot<'_>, to: Spot<'_>) -> Result<(), Errno> {
    linkat(from.dir, from.name, to.dir, to.name, AtFlags::empty())
}

/// Gives it another name that nothing else has.
fn rename(from: Spot<'_>, to: Spot<'_>) -> Result<(), Errno> {
    renameat_with(from.dir, from.name, to.dir, to.name, RenameFlags::NOREPLACE)
}

fn is_empty(dir: Spot<'_>) -> bool {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(dir) = openat(dir.dir, dir.name, flags, Mode::empty()) else { return false };
    let mut space = [const { MaybeUninit::uninit() }; 1024];
    let mut entries = RawDir::new(dir, &mut space);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|it| matches!(it.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}

fn dir(spot: Spot<'_>) -> Result<(), Errno> {
    mkdirat(spot.dir, spot.name, Mode::from(DIR_MODE))
}

/// Makes the file without a name, and gives it one when it is done: half of one would lead git astray
/// were we killed at that moment, and nobody would know it as ours.
fn git_file(spot: Spot<'_>) -> Result<(), Errno> {
    let dir = spot.path.parent().ok_or(Errno::INVAL)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(dir, flags, Mode::from(FILE_MODE)) {
        Ok(file) => {
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            let _filled = fill(file.into(), spot.path)?;
            linkat(CWD, name, spot.dir, spot.name, AtFlags::SYMLINK_FOLLOW)
        }
        // A filesystem without such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(spot.dir, spot.name, new, Mode::from(FILE_MODE))?;
            fill(file.into(), spot.path).map(drop)
        }
        Err(errno) => Err(errno),
    }
}

fn fill(mut file: File, path: &Path) -> Result<File, Errno> {
    let written = file.write_all(absence(path));
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let time = Timespec { tv_sec: TIME, tv_nsec: 0 };
    futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    Ok(file)
}

/// Whether what is at `spot` is a stand-in of ours, with nothing in it.
pub(super) fn is_ours(spot: Spot<'_>, how: How) -> bool {
    spot.look().is_ok_and(|found| looks_ours(spot, how, &found))
}

fn looks_ours(spot: Spot<'_>, how: How, found: &Stat) -> bool {
    // The mask of the caller may have taken bits away.
    let mode = found.st_mode & 0o7777;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => mode | 0o700 == DIR_MODE && is_empty(spot),
        FileType::Socket => mode | 0o500 == MODE,
        FileType::RegularFile => {
            let ours = mode | 0o444 == FILE_MODE && found.st_mtime == TIME;
            how == How::AbsentGitFile && ours && says(spot).is_ok_and(|it| it)
        }
        FileType::Symlink
        | FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => false,
    }
}

/// Whether the file says the same as its absence.
fn says(spot: Spot<'_>) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(spot.dir, spot.name, flags, Mode::empty())?);
    let expected = absence(spot.path);
    let mut text = Vec::new();
    file.take(expected.len() as u64 + 1).read_to_end(&mut text)?;
    Ok(text == expected)
}

/// Whether what is at `path` is a stand-in, be it of another sandbox.
pub(crate) fn is_one(path: &Path) -> bool {
    is_ours(Spot::of(path), How::absent(path))
}
