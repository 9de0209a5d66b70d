//! Walks a tree and makes the same one elsewhere.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::Ordering,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, ftruncate, linkat,
        mkdirat, mknodat, openat, openat2, readlinkat, statat, symlinkat,
    },
    io::Errno,
};

use super::{
    CopyOrder, Failed, Part, PartKind, Place, about,
    bytes::{Common, SHARE, Share, WAITING, Whole, queue, work},
    failed,
};

/// A directory that is being copied.
struct Dir {
    from: OwnedFd,
    to: OwnedFd,
    stat: Stat,
    kind: PartKind,
    /// Below the layer; to find a file again that has a second name.
    path: Vec<u8>,
    /// The directories in it that are still to be copied. By name, because a descriptor for each
    /// would be more than a process can have.
    left: Vec<CString>,
}

impl Dir {
    /// Everything in it is there.
    fn finish(&self) -> Result<(), Failed> {
        about::finish(self.from.as_fd(), self.to.as_fd(), &self.stat, self.kind)
            .map_err(failed("give a directory its attributes"))
    }
}

/// Copies every part; tells bytes and files.
pub(super) fn copy_all(
    order: &CopyOrder,
    base: BorrowedFd<'_>,
    layer: BorrowedFd<'_>,
) -> Result<(u64, u64), Failed> {
    let common = Arc::new(Common::default());
    let (sender, receiver) = sync_channel(WAITING);
    let receiver = Mutex::new(receiver);
    let mut walk =
        Walk { layer, common: Arc::clone(&common), sender, twice: HashMap::new(), files: 0 };
    let threads = thread::available_parallelism().map_or(1, |it| it.get().min(4));
    let files = thread::scope(|scope| {
        for _ in 0..threads {
            let work = || work(&receiver, &common);
            thread::Builder::new().stack_size(1 << 20).spawn_scoped(scope, work).map_err(
                |_| Failed { action: "start a thread".to_owned(), errno: Errno::AGAIN },
            )?;
        }
        for part in &order.parts {
            walk.part(part, order.place, base)?;
        }
        // The threads end when nobody can send any more.
        let Walk { files, sender, .. } = walk;
        drop(sender);
        Ok(files)
    })?;
    match common.failure() {
        Some(failed) => Err(failed),
        None => Ok((common.bytes.load(Ordering::Relaxed), files)),
    }
}

struct Walk<'a> {
    layer: BorrowedFd<'a>,
    common: Arc<Common>,
    sender: SyncSender<Share>,
    /// Where the copy of each file is that has several names.
    twice: HashMap<(u64, u64), (Vec<u8>, CString)>,
    files: u64,
}

impl Walk<'_> {
    fn part(&mut self, part: &Part, place: Place, base: BorrowedFd<'_>) -> Result<(), Failed> {
        let from = match openat2(base, part.from.as_str(), DIR, Mode::empty(), WITHIN) {
            Err(Errno::NOENT) if place == Place::Laid => return Ok(()),
            from => from.map_err(failed("open a part of the disk"))?,
        };
        let stat = fstat(&from).map_err(failed("look at a part of the disk"))?;
        let to = match place {
            Place::Empty => made_dir(self.layer, &c_string(part.to.as_bytes())?)?,
            Place::Laid => openat2(self.layer, part.to.as_str(), DIR, Mode::empty(), WITHIN)
                .map_err(failed("open a place of the disk"))?,
        };
        let path = part.to.clone().into_bytes();
        let mut top = Dir { from, to, stat, kind: part.kind, path, left: Vec::new() };
        self.each(&mut top)?;
        // Not by recursion: a sandbox can make trees deeper than any stack.
        let mut open = vec![top];
        while let Some(dir) = open.last_mut() {
            if self.common.has_failed() {
                return Ok(());
            }
            if let Some(name) = dir.left.pop() {
                if let Some(mut below) = below(dir, &name)? {
                    self.each(&mut below)?;
                    open.push(below);
                }
            } else if let Some(done) = open.pop() {
                done.finish()?;
            }
        }
        Ok(())
    }

    /// Copies everything in `dir` but its directories.
    fn each(&mut self, dir: &mut Dir) -> Result<(), Failed> {
        let mut buffer = Vec::with_capacity(32 << 10);
        let list =
            dir.from.try_clone().map_err(|_| failed("list a directory")(Errno::MFILE))?;
        let mut entries = RawDir::new(&list, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed("list a directory"))?;
            let name = entry.file_name();
            if name != c"." && name != c".." && !self.common.has_failed() {
                self.entry(dir, name)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, dir: &mut Dir, name: &CStr) -> Result<(), Failed> {
        let stat = statat(&dir.from, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("look at a file"))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::CharacterDevice || kind == FileType::BlockDevice {
            return self.hidden(dir, name, &stat);
        }
        self.files += 1;
        if kind == FileType::Directory {
            dir.left.push(name.to_owned());
            return Ok(());
        }
        let inode = (stat.st_dev, stat.st_ino);
        if 1 < stat.st_nlink {
            if let Some((path, known)) = self.twice.get(&inode) {
                return self.again(path, known, dir, name);
            }
            self.twice.insert(inode, (dir.path.clone(), name.to_owned()));
        }
        if kind == FileType::RegularFile {
            return self.file(dir, name, stat);
        }
        odd(dir, name, kind, &stat).map_err(failed("copy a link, pipe or socket"))
    }

    fn file(&self, dir: &Dir, name: &CStr, stat: Stat) -> Result<(), Failed> {
        let open = || {
            let from = openat2(&dir.from, name, READ, Mode::empty(), SAME)?;
            let to = openat(&dir.to, name, WRITE, Mode::from_raw_mode(0o600))?;
            Ok((from, to))
        };
        let copying = "copy a file";
        let (from, to) = match open() {
            Err(Errno::XDEV) => return Ok(()),
            opened => opened.map_err(failed(copying))?,
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        ftruncate(&to, size).map_err(failed(copying))?;
        let (kind, common) = (dir.kind, Arc::clone(&self.common));
        let whole = Arc::new(Whole { from, to, stat, kind, common });
        let mut at = 0;
        while at < size {
            let end = size.min(at + SHARE);
            let (from, to) = open().map_err(failed(copying))?;
            let part_of = Arc::clone(&whole);
            queue(&self.sender, Share { from, to, range: (at, end), _whole: part_of })?;
            at = end;
        }
        Ok(())
    }

    /// A second name of a file that is there.
    fn again(&self, path: &[u8], known: &CStr, dir: &Dir, name: &CStr) -> Result<(), Failed> {
        let linked = || {
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            let first = openat2(self.layer, path, PATH, Mode::empty(), WITHIN)?;
            linkat(&first, known, &dir.to, name, AtFlags::empty())
        };
        linked().map_err(failed("link a second name of a file"))
    }

    /// A device: none but the mark by which the overlay hides what is below.
    fn hidden(&mut self, dir: &Dir, name: &CStr, stat: &Stat) -> Result<(), Failed> {
        let mark = stat.st_rdev == 0 && dir.kind == PartKind::Changes;
        if !mark {
            return Ok(());
        }
        self.files += 1;
        let mode = Mode::empty();
        mknodat(&dir.to, name, FileType::CharacterDevice, mode, 0)
            .map_err(failed("hide a name that was removed"))
    }
}

const DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PATH: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
// A file that became a pipe meanwhile would keep us waiting.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const WRITE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const WITHIN: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
// What is mounted on a disk is not of it.
const SAME: ResolveFlags = WITHIN.union(ResolveFlags::NO_XDEV);

/// A directory in `dir`, and an empty one in its copy; nothing if something else is mounted there.
fn below(dir: &Dir, name: &CStr) -> Result<Option<Dir>, Failed> {
    let to = made_dir(dir.to.as_fd(), name)?;
    let from = match openat2(&dir.from, name, DIR, Mode::empty(), SAME) {
        Err(Errno::XDEV) => return Ok(None),
        from => from.map_err(failed("open a directory"))?,
    };
    let stat = fstat(&from).map_err(failed("look at a directory"))?;
    let path = [&dir.path, &b"/"[..], name.to_bytes()].concat();
    Ok(Some(Dir { from, to, stat, kind: dir.kind, path, left: Vec::new() }))
}

fn made_dir(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Failed> {
    let make = "make a directory in the layer";
    mkdirat(dir, name, Mode::from_raw_mode(0o700)).map_err(failed(make))?;
    openat(dir, name, DIR, Mode::empty()).map_err(failed(make))
}

fn odd(dir: &Dir, name: &CStr, kind: FileType, stat: &Stat) -> Result<(), Errno> {
    if kind == FileType::Symlink {
        let to = readlinkat(&dir.from, name, Vec::new())?;
        symlinkat(to, &dir.to, name)?;
    } else {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        mknodat(&dir.to, name, kind, mode, 0)?;
    }
    about::stamp(dir.to.as_fd(), name, stat)
}

fn c_string(bytes: &[u8]) -> Result<CString, Failed> {
    CString::new(bytes).map_err(|_| failed("name a part of the layer")(Errno::INVAL))
}
