//! Changes, as they happen.
//!
//! The queue is the kernel's: what nobody takes in time overflows it, and that is said.

use std::{collections::BTreeMap, mem::MaybeUninit, os::fd::OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use super::{
    Refused, Task,
    bytes::write_all,
    look::facts,
    tree::{join, walk},
};
use crate::{
    protocol::files::{Change, Depth, Filed, Follow, Kind, MOST_WATCHED_DIRS, Record},
    wire::encode,
};

const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// Sends what changes in `path` until the host stops listening.
pub(super) fn watch(path: &[u8], depth: Depth, task: &Task) -> Result<(), Refused> {
    let top = facts(path, Follow::Links)?;
    if top.kind != Kind::Dir {
        return Err(Errno::NOTDIR.into());
    }
    let pipe = task.pipe()?;
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let mut watched = Watched { inotify, top: path, depth, dirs: BTreeMap::new() };
    let flags = WANTED.difference(WatchFlags::DONT_FOLLOW);
    let number = inotify::add_watch(&watched.inotify, path, flags)?;
    watched.dirs.insert(number, Vec::new());
    let mut out = Vec::new();
    if depth == Depth::Everything {
        watched.add_below(b"", &mut out, Known::Before);
    }
    task.answer(Filed::Is(top));
    // What ends this is that nobody listens, or that there is nothing left to watch.
    watched.report(pipe, out).unwrap_or_default();
    Ok(())
}

struct Watched<'a> {
    inotify: OwnedFd,
    top: &'a [u8],
    depth: Depth,
    /// What each watch is for, from the top.
    dirs: BTreeMap<i32, Vec<u8>>,
}

/// Whether what is in a directory was there before, or has just been made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Before,
    Just,
}

/// An event of the kernel's.
struct Seen {
    number: i32,
    flags: ReadFlags,
    name: Vec<u8>,
}

impl Watched<'_> {
    fn report(&mut self, pipe: &OwnedFd, first: Vec<Record>) -> Result<(), Errno> {
        let mut out = first;
        loop {
            let mut bytes = Vec::new();
            for record in out.drain(..) {
                bytes.extend(encode(&record).map_err(|_| Errno::MSGSIZE)?);
            }
            write_all(pipe, &bytes)?;
            if self.dirs.is_empty() {
                return Ok(());
            }
            let mut wanted = [
                PollFd::new(&self.inotify, PollFlags::IN),
                // Says unasked that nobody reads.
                PollFd::new(pipe, PollFlags::empty()),
            ];
            poll(&mut wanted, None)?;
            let [_, broken] = wanted.map(|it| !it.revents().is_empty());
            if broken {
                return Ok(());
            }
            for seen in self.seen()? {
                self.tell(&seen, &mut out);
            }
        }
    }

    fn seen(&self) -> Result<Vec<Seen>, Errno> {
        let mut buffer = vec![MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => seen.push(Seen {
                    number: event.wd(),
                    flags: event.events(),
                    name: event
                        .file_name()
                        .map(|it| it.to_bytes().to_vec())
                        .unwrap_or_default(),
                }),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(seen),
                Err(errno) => return Err(errno),
            }
            if reader.is_buffer_empty() {
                return Ok(seen);
            }
        }
    }

    fn tell(&mut self, seen: &Seen, out: &mut Vec<Record>) {
        if seen.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            out.push(Record::Overflow);
            return;
        }
        if seen.flags.contains(ReadFlags::IGNORED) {
            self.dirs.remove(&seen.number);
            return;
        }
        let Some(dir) = self.dirs.get(&seen.number) else { return };
        let path = join(dir, &seen.name);
        let is_dir = seen.flags.contains(ReadFlags::ISDIR);
        let Some(change) = change(seen.flags) else { return };
        out.push(Record::Changed { path: path.clone(), change });
        if !is_dir || self.depth == Depth::Itself {
            return;
        }
        match change {
            Change::Made | Change::MovedTo => self.add(&path, out),
            // Its watches would go on under names that are wrong.
            Change::MovedFrom => self.forget(&path),
            Change::Written | Change::Set | Change::Removed => {}
        }
    }

    /// Watches a directory that is new, and all in it.
    fn add(&mut self, path: &[u8], out: &mut Vec<Record>) {
        self.add_one(path.to_vec(), out);
        self.add_below(path, out, Known::Just);
    }

    fn add_one(&mut self, path: Vec<u8>, out: &mut Vec<Record>) {
        if MOST_WATCHED_DIRS <= self.dirs.len() {
            out.push(Record::Overflow);
            return;
        }
        match inotify::add_watch(&self.inotify, &*join(self.top, &path), WANTED) {
            Ok(number) => drop(self.dirs.insert(number, path)),
            // Gone again, or not ours to look into.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(_) => out.push(Record::Overflow),
        }
    }

    /// Watches the directories in `path`; what has just been made in it was not seen by anybody.
    fn add_below(&mut self, path: &[u8], out: &mut Vec<Record>, known: Known) {
        let mut below = Vec::new();
        let most = MOST_WATCHED_DIRS;
        let walked = walk(&join(self.top, path), u32::MAX, |record, _| {
            let Record::Entry { path: inside, facts } = record else { return Ok(()) };
            let path = join(path, &inside);
            if facts.kind == Kind::Dir {
                below.push(path.clone());
            }
            if known == Known::Just {
                out.push(Record::Changed { path, change: Change::Made });
            }
            if most < below.len() || most < out.len() { Err(Errno::OVERFLOW) } else { Ok(()) }
        });
        if walked.is_err() {
            out.push(Record::Overflow);
        }
        for path in below.into_iter().take(most) {
            self.add_one(path, out);
        }
    }

    fn forget(&mut self, path: &[u8]) {
        let inside = |it: &[u8]| {
            it.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let gone: Vec<i32> =
            self.dirs.iter().filter(|(_, it)| inside(it)).map(|(number, _)| *number).collect();
        for number in gone {
            self.dirs.remove(&number);
            // Gone already is what we wanted.
            inotify::remove_watch(&self.inotify, number).unwrap_or_default();
        }
    }
}

fn change(flags: ReadFlags) -> Option<Change> {
    [
        (ReadFlags::CREATE, Change::Made),
        (ReadFlags::CLOSE_WRITE, Change::Written),
        (ReadFlags::ATTRIB, Change::Set),
        (ReadFlags::DELETE, Change::Removed),
        (ReadFlags::MOVED_FROM, Change::MovedFrom),
        (ReadFlags::MOVED_TO, Change::MovedTo),
    ]
    .into_iter()
    .find_map(|(flag, change)| flags.contains(flag).then_some(change))
}
