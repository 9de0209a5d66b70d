//! Directories and whole trees, as records.

mod unpack;

use std::os::fd::OwnedFd;

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, open, statat},
    io::Errno,
};

pub(super) use self::unpack::unpack;
use super::{
    Refused, Task,
    bytes::{CHUNK, write_all},
    look::{facts, more, of, open_file},
};
use crate::{
    protocol::files::{Facts, Filed, Follow, Kind, Record},
    wire::{encode, encode_data},
};

/// Sends what is in a directory.
pub(super) fn list(path: &[u8], depth: u32, task: &Task) -> Result<(), Refused> {
    let top = facts(path, Follow::Links)?;
    // What cannot be opened is told before anything is sent.
    drop(open_dir(path)?);
    task.answer(Filed::Is(top));
    let mut sender = Sender::new(task.pipe()?);
    let listed =
        walk(path, depth, |record, _| sender.send(&record)).and_then(|()| sender.end());
    // A host that has heard enough breaks the pipe.
    listed.unwrap_or_default();
    Ok(())
}

/// Sends a file or a whole directory, with the bytes of all files.
pub(super) fn pack(path: &[u8], task: &Task) -> Result<(), Refused> {
    let top = facts(path, Follow::Links)?;
    match top.kind {
        Kind::Dir => drop(open_dir(path)?),
        Kind::File => drop(open_file(path, OFlags::RDONLY)?),
        kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device) => {
            return Err(Refused::NotAFile(kind));
        }
    }
    task.answer(Filed::Is(top.clone()));
    let mut sender = Sender::new(task.pipe()?);
    let packed = send_tree(path, top, &mut sender).and_then(|()| sender.end());
    packed.unwrap_or_default();
    Ok(())
}

fn send_tree(path: &[u8], top: Facts, sender: &mut Sender<'_>) -> Result<(), Errno> {
    let is_dir = top.kind == Kind::Dir;
    sender.entry(Record::Entry { path: Vec::new(), facts: top }, path)?;
    if is_dir {
        walk(path, u32::MAX, |record, whole| sender.entry(record, whole))
    } else {
        Ok(())
    }
}

/// Where records go, in frames.
struct Sender<'a> {
    pipe: &'a OwnedFd,
    waiting: Vec<u8>,
}

impl<'a> Sender<'a> {
    fn new(pipe: &'a OwnedFd) -> Self {
        Self { pipe, waiting: Vec::new() }
    }

    fn send(&mut self, record: &Record) -> Result<(), Errno> {
        self.waiting.extend(encode(record).map_err(|_| Errno::MSGSIZE)?);
        if CHUNK <= self.waiting.len() { self.flush() } else { Ok(()) }
    }

    /// Sends an entry of a tree, with its bytes if it is a file; `whole` is its path.
    fn entry(&mut self, record: Record, whole: &[u8]) -> Result<(), Errno> {
        let Record::Entry { path, facts } = record else { return self.send(&record) };
        match facts.kind {
            Kind::Dir | Kind::Link => self.send(&Record::Entry { path, facts }),
            Kind::Fifo | Kind::Socket | Kind::Device => {
                self.send(&Record::Skipped { path, errno: 0 })
            }
            Kind::File => match open_file(whole, OFlags::RDONLY) {
                Ok((file, facts)) => {
                    self.send(&Record::Entry { path: path.clone(), facts })?;
                    match self.bytes(&file)? {
                        Ok(()) => self.send(&Record::FileEnd),
                        Err(errno) => {
                            self.send(&Record::Skipped { path, errno: errno.raw_os_error() })
                        }
                    }
                }
                Err(Refused::Kernel(errno)) => {
                    self.send(&Record::Skipped { path, errno: errno.raw_os_error() })
                }
                Err(Refused::NotAFile(_)) => self.send(&Record::Skipped { path, errno: 0 }),
            },
        }
    }

    /// Sends the bytes of a file; inside is what kept it from being read to its end.
    fn bytes(&mut self, file: &OwnedFd) -> Result<Result<(), Errno>, Errno> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match rustix::io::read(file, &mut *chunk) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => {
                    self.flush()?;
                    let bytes = chunk.get(..count).unwrap_or_default();
                    write_all(self.pipe, &encode_data(0, bytes))?;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Ok(Err(errno)),
            }
        }
    }

    fn end(&mut self) -> Result<(), Errno> {
        self.send(&Record::End)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Errno> {
        let sent = write_all(self.pipe, &self.waiting);
        self.waiting.clear();
        sent
    }
}

fn open_dir(path: &[u8]) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOCTTY;
    Dir::new(open(path, flags, Mode::empty())?)
}

/// Goes through a directory, each before what is in it, and follows no link. `each` gets a record
/// and the whole path.
pub(super) fn walk(
    top: &[u8],
    depth: u32,
    mut each: impl FnMut(Record, &[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut left = vec![(Vec::new(), depth)];
    while let Some((relative, depth)) = left.pop() {
        let whole = join(top, &relative);
        let mut dir = match open_dir(&whole) {
            Ok(dir) => dir,
            Err(errno) => {
                let errno = errno.raw_os_error();
                each(Record::Skipped { path: relative, errno }, &whole)?;
                continue;
            }
        };
        while let Some(entry) = dir.read() {
            let name = entry?.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let path = join(&relative, &name);
            let whole = join(top, &path);
            let record = look_at(path.clone(), &whole);
            let is_dir =
                matches!(&record, Record::Entry { facts, .. } if facts.kind == Kind::Dir);
            each(record, &whole)?;
            if is_dir && 1 < depth {
                left.push((path, depth - 1));
            }
        }
    }
    Ok(())
}

fn look_at(path: Vec<u8>, whole: &[u8]) -> Record {
    let facts = statat(CWD, whole, AtFlags::SYMLINK_NOFOLLOW);
    let facts = facts.and_then(|stat| more(whole, of(&stat)));
    match facts {
        Ok(facts) => Record::Entry { path, facts },
        Err(errno) => Record::Skipped { path, errno: errno.raw_os_error() },
    }
}

pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() || name.is_empty() {
        return [dir, name].concat();
    }
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}
