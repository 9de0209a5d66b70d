//! Files inside, with names and things that are meant to hurt.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use bulkhead_backends::guest::files::{
    Bounds, Change, Depth, FileError, Files, Follow, Item, Kind, Onto, Put, Record, Records,
    receive, send,
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    io::Errno,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::{BOTH, House, Over, soon};

struct Desk {
    house: House,
    files: Files,
    dir: TempDir,
}

fn desk(over: Over) -> Desk {
    let house = House::build(over);
    Desk { files: house.link.files(), house, dir: tempfile::tempdir().unwrap() }
}

impl Desk {
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// As the guest is told.
    fn at(&self, name: impl AsRef<Path>) -> Vec<u8> {
        self.path(name).into_os_string().into_encoded_bytes()
    }

    async fn put(&self, name: &str, text: &[u8], put: Put) -> Result<(), FileError> {
        let mut writing = soon(self.files.write(&self.at(name), put, None, None)).await?;
        // If it fails, the end says why.
        soon(writing.write_all(text)).await.unwrap_or_default();
        soon(writing.finish()).await
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let mut reading = soon(self.files.read(&self.at(name), 0, None)).await?;
        let mut bytes = Vec::new();
        soon(reading.bytes.read_to_end(&mut bytes)).await?;
        soon(reading.finish()).await?;
        Ok(bytes)
    }

    fn fifo(&self, name: &str) {
        mknodat(CWD, self.path(name), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    }

    /// The names that are there.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn errno(error: &FileError) -> ErrorKind {
    let FileError::System(error) = error else { panic!("{error:?}") };
    error.kind()
}

#[tokio::test]
async fn files_are_written_read_and_replaced() {
    for over in BOTH {
        let desk = desk(over);
        let much = b"0123456789abcdef".repeat(50_000);
        desk.put("file", &much, Put::New).await.unwrap();
        assert!(desk.get("file").await.unwrap() == much, "{over:?}");
        fs::set_permissions(desk.path("file"), PermissionsExt::from_mode(0o751)).unwrap();
        desk.put("file", b"short", Put::Replace).await.unwrap();
        desk.put("file", b" and more", Put::Append).await.unwrap();
        assert_eq!(fs::read(desk.path("file")).unwrap(), b"short and more");
        assert_eq!(
            fs::metadata(desk.path("file")).unwrap().permissions().mode() & 0o777,
            0o751
        );
        desk.put("file", b"over", Put::InPlace).await.unwrap();
        assert_eq!(fs::read(desk.path("file")).unwrap(), b"over");
        let refused = desk.put("file", b"", Put::New).await.unwrap_err();
        assert_eq!(errno(&refused), ErrorKind::AlreadyExists);
        assert_eq!(desk.names(), ["file"]);

        let mut part = desk.files.read(&desk.at("file"), 1, Some(2)).await.unwrap();
        let mut said = String::new();
        soon(part.bytes.read_to_string(&mut said)).await.unwrap();
        assert_eq!((part.facts.size, said.as_str()), (4, "ve"));
    }
}

#[tokio::test]
async fn a_write_that_is_given_up_changes_nothing() {
    let desk = desk(Over::Pipes);
    desk.put("file", b"old", Put::Replace).await.unwrap();
    let mut writing =
        desk.files.write(&desk.at("file"), Put::Replace, None, None).await.unwrap();
    writing.write_all(b"half of the new").await.unwrap();
    drop(writing);
    // The next order but one is done after it.
    let gone = async {
        while desk.names() != ["file"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(gone).await;
    assert_eq!(desk.get("file").await.unwrap(), b"old");
}

#[tokio::test]
async fn names_are_bytes() {
    let desk = desk(Over::Pipes);
    let odd: &[u8] = b"new\nline \xff\xfe \x1b[31m";
    let path = [&desk.at(""), odd].concat();
    let mut writing = desk.files.write(&path, Put::New, Some(0o600), None).await.unwrap();
    writing.write_all(b"odd").await.unwrap();
    soon(writing.finish()).await.unwrap();
    let listing = soon(desk.files.list(&desk.at(""), 1, 10)).await.unwrap();
    assert_eq!(listing.entries.len(), 1);
    assert_eq!(listing.entries[0].path, odd);
    assert_eq!(listing.entries[0].facts.mode, 0o600);
    let with_nul = [&desk.at("x"), &b"\0y"[..]].concat();
    assert!(soon(desk.files.stat(&with_nul, Follow::Nothing)).await.is_err());
}

#[tokio::test]
async fn what_is_no_file_is_not_opened() {
    let desk = desk(Over::Pipes);
    desk.fifo("fifo");
    for put in [Put::Replace, Put::Append, Put::InPlace] {
        let refused = desk.put("fifo", b"x", put).await.unwrap_err();
        assert!(matches!(refused, FileError::NotAFile(Kind::Fifo)), "{refused:?}");
    }
    let refused = desk.get("fifo").await.unwrap_err();
    assert_eq!(refused.to_string(), "it is a named pipe, not a file");
    let device = soon(desk.files.read(b"/dev/zero", 0, None)).await.err().unwrap();
    assert!(matches!(device, FileError::NotAFile(Kind::Device)), "{device:?}");
    assert_eq!(errno(&desk.get("").await.unwrap_err()), ErrorKind::IsADirectory);
    assert_eq!(errno(&desk.get("absent").await.unwrap_err()), ErrorKind::NotFound);
    let packed = soon(desk.files.pack(&desk.at("fifo"))).await.err().unwrap();
    assert!(matches!(packed, FileError::NotAFile(Kind::Fifo)), "{packed:?}");
}

#[tokio::test]
async fn names_are_made_moved_set_and_removed() {
    let desk = desk(Over::Pipes);
    let files = &desk.files;
    soon(files.make_dirs(&desk.at("a/b/c"), 0o755)).await.unwrap();
    soon(files.make_dirs(&desk.at("a/b/c"), 0o755)).await.unwrap();
    desk.put("a/b/c/file", b"text", Put::New).await.unwrap();
    soon(files.link(&desk.at("a/link"), b"/no\nwhere")).await.unwrap();
    let link = soon(files.stat(&desk.at("a/link"), Follow::Nothing)).await.unwrap();
    assert_eq!((link.kind, link.target.as_deref()), (Kind::Link, Some(&b"/no\nwhere"[..])));
    assert!(soon(files.stat(&desk.at("a/link"), Follow::Links)).await.is_err());
    let file = desk.at("a/b/c/file");
    soon(files.set(&file, Some(0o640), Some((1_000_000, 5)))).await.unwrap();
    let facts = soon(files.stat(&file, Follow::Links)).await.unwrap();
    assert_eq!((facts.mode, facts.modified, facts.size), (0o640, (1_000_000, 5), 4));

    soon(files.rename(&desk.at("a/b"), &desk.at("moved"), Onto::Nothing)).await.unwrap();
    let refused = soon(files.rename(&desk.at("a"), &desk.at("moved"), Onto::Nothing)).await;
    assert_eq!(errno(&refused.unwrap_err()), ErrorKind::AlreadyExists);
    let refused = soon(files.remove(&desk.at("moved"), Depth::Itself)).await.unwrap_err();
    assert_eq!(errno(&refused), ErrorKind::DirectoryNotEmpty);
    // A link to somewhere else is removed, and not where it leads.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("keep"), "me").unwrap();
    symlink(outside.path(), desk.path("moved/out")).unwrap();
    soon(files.remove(&desk.at("moved"), Depth::Everything)).await.unwrap();
    assert!(outside.path().join("keep").exists());
    soon(files.remove(&desk.at("a/link"), Depth::Itself)).await.unwrap();
    soon(files.remove(&desk.at("a"), Depth::Itself)).await.unwrap();
    assert!(desk.names().is_empty());
}

#[tokio::test]
async fn lists_go_as_deep_and_as_far_as_asked() {
    let desk = desk(Over::Pipes);
    fs::create_dir_all(desk.path("a/b")).unwrap();
    for at in 0..50 {
        fs::write(desk.path(format!("a/{at}")), "").unwrap();
    }
    let list =
        async |depth, most| soon(desk.files.list(&desk.at(""), depth, most)).await.unwrap();
    assert_eq!(list(1, 100).await.entries.len(), 1);
    let all = list(9, 100).await;
    assert_eq!((all.entries.len(), all.truncated), (52, false));
    let some = list(9, 10).await;
    assert_eq!((some.entries.len(), some.truncated), (10, true));
    let exact = list(9, 52).await;
    assert_eq!((exact.entries.len(), exact.truncated), (52, false));
    assert_eq!(
        errno(&desk.files.list(&desk.at("a/1"), 1, 9).await.unwrap_err()),
        ErrorKind::NotADirectory
    );
}

#[tokio::test]
async fn a_slow_reader_of_a_great_file_holds_up_nobody() {
    let desk = desk(Over::Pipes);
    fs::File::create(desk.path("sparse")).unwrap().set_len(4 << 30).unwrap();
    let mut readings = Vec::new();
    for _ in 0..7 {
        let mut reading = soon(desk.files.read(&desk.at("sparse"), 0, None)).await.unwrap();
        soon(reading.bytes.read_exact(&mut [0; 100])).await.unwrap();
        assert_eq!(reading.facts.size, 4 << 30);
        readings.push(reading);
    }
    assert_eq!(desk.house.say("echo fine").await.0, "fine\n");
    soon(desk.files.stat(&desk.at("sparse"), Follow::Links)).await.unwrap();
    drop(readings);
    // All of them are given up in the end.
    for _ in 0..50 {
        let reading = soon(desk.files.read(&desk.at("sparse"), 0, Some(10))).await.unwrap();
        drop(reading);
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let house = House::with_small_disk(dir.path());
    let desk = Desk { files: house.link.files(), house, dir };
    desk.put("file", b"old", Put::Replace).await.unwrap();
    let refused = desk.put("file", &vec![7; 4 << 20], Put::Replace).await.unwrap_err();
    assert_eq!(errno(&refused), ErrorKind::StorageFull);
    assert_eq!(desk.get("file").await.unwrap(), b"old");
    let listing = soon(desk.files.list(&desk.at(""), 1, 10)).await.unwrap();
    assert_eq!(listing.entries.len(), 1, "nothing is left of it");

    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("much"), vec![7; 4 << 20]).unwrap();
    let mut writing = soon(desk.files.unpack(&desk.at("tree"))).await.unwrap();
    assert!(soon(send(source.path(), &mut writing, |_| {})).await.is_err());
    assert_eq!(errno(&soon(writing.finish()).await.unwrap_err()), ErrorKind::StorageFull);
}

#[tokio::test]
async fn trees_go_out_and_in_again() {
    for over in BOTH {
        let desk = desk(over);
        let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\n\xff");
        fs::create_dir_all(desk.path("tree/a/b")).unwrap();
        fs::write(desk.path("tree/a/file"), "x".repeat(100_000)).unwrap();
        fs::write(desk.path("tree/a").join(odd), "odd").unwrap();
        fs::write(desk.path("tree/empty"), "").unwrap();
        fs::set_permissions(desk.path("tree/empty"), PermissionsExt::from_mode(0o4711))
            .unwrap();
        symlink("/etc/passwd", desk.path("tree/link")).unwrap();
        desk.fifo("tree/fifo");

        let bounds = Bounds { bytes: 1 << 20, entries: 100 };
        let packed = soon(desk.files.pack(&desk.at("tree"))).await.unwrap();
        let out = desk.path("out");
        let came = soon(receive(packed.bytes, &out, bounds, |_| {})).await.unwrap();
        assert_eq!((came.bytes, came.entries), (100_003, 8));
        assert_eq!(came.skipped, [b"fifo"]);
        assert_eq!(fs::read(out.join("a").join(odd)).unwrap(), b"odd");
        assert_eq!(fs::read_link(out.join("link")).unwrap(), Path::new("/etc/passwd"));
        let mode = fs::metadata(out.join("empty")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o711, "it brings no rights");

        let mut writing = soon(desk.files.unpack(&desk.at("deep/er/back"))).await.unwrap();
        let sent = soon(send(&out, &mut writing, |_| {})).await.unwrap();
        soon(writing.finish()).await.unwrap();
        assert_eq!((sent.bytes, sent.entries), (100_003, 7));
        assert_eq!(fs::read(desk.path("deep/er/back/a/file")).unwrap().len(), 100_000);
        let link = fs::read_link(desk.path("deep/er/back/link")).unwrap();
        assert_eq!(link, Path::new("/etc/passwd"));

        // A single file, over one that is there.
        let packed = soon(desk.files.pack(&desk.at("tree/a/file"))).await.unwrap();
        fs::write(desk.path("single"), "old").unwrap();
        soon(receive(packed.bytes, &desk.path("single"), bounds, |_| {})).await.unwrap();
        assert_eq!(fs::read(desk.path("single")).unwrap().len(), 100_000);
    }
}

#[tokio::test]
async fn more_than_allowed_does_not_come_out() {
    let desk = desk(Over::Pipes);
    fs::File::create(desk.path("bomb")).unwrap().set_len(4 << 30).unwrap();
    let packed = soon(desk.files.pack(&desk.at("bomb"))).await.unwrap();
    let bounds = Bounds { bytes: 1 << 20, entries: 2 };
    let refused = soon(receive(packed.bytes, &desk.path("out"), bounds, |_| {})).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "there is more than the 1048576 bytes that are allowed"
    );
    fs::create_dir_all(desk.path("many/a/b/c")).unwrap();
    let packed = soon(desk.files.pack(&desk.at("many"))).await.unwrap();
    let refused = soon(receive(packed.bytes, &desk.path("out2"), bounds, |_| {})).await;
    assert!(matches!(refused, Err(FileError::TooMuch { what: "entries", most: 2 })));
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let desk = desk(Over::Pipes);
    fs::create_dir(desk.path("old")).unwrap();
    let reading = soon(desk.files.watch(&desk.at(""), Depth::Everything)).await.unwrap();
    let mut records = Records::new(reading.bytes);
    let mut next = async || match soon(records.next()).await.unwrap() {
        Some(Item::Record(Record::Changed { path, change })) => {
            (String::from_utf8(path).unwrap(), change)
        }
        other => panic!("{other:?}"),
    };
    fs::write(desk.path("old/file"), "text").unwrap();
    assert_eq!(next().await, ("old/file".to_owned(), Change::Made));
    assert_eq!(next().await, ("old/file".to_owned(), Change::Written));
    fs::create_dir(desk.path("new")).unwrap();
    assert_eq!(next().await, ("new".to_owned(), Change::Made));
    fs::rename(desk.path("old/file"), desk.path("new/file")).unwrap();
    assert_eq!(next().await, ("old/file".to_owned(), Change::MovedFrom));
    assert_eq!(next().await, ("new/file".to_owned(), Change::MovedTo));
    fs::rename(desk.path("new"), desk.path("newer")).unwrap();
    assert_eq!(next().await, ("new".to_owned(), Change::MovedFrom));
    assert_eq!(next().await, ("newer".to_owned(), Change::MovedTo));
    assert_eq!(next().await, ("newer/file".to_owned(), Change::Made));
    fs::remove_file(desk.path("newer/file")).unwrap();
    assert_eq!(next().await, ("newer/file".to_owned(), Change::Removed));
}

#[tokio::test]
async fn a_flood_of_changes_that_nobody_reads_is_said_to_have_overflowed() {
    let mut desk = desk(Over::Pipes);
    // In memory, for there are many.
    desk.dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let reading = soon(desk.files.watch(&desk.at(""), Depth::Itself)).await.unwrap();
    for at in 0..20_000 {
        let name = desk.path(format!("{at:0200}"));
        fs::create_dir(&name).unwrap();
        fs::remove_dir(&name).unwrap();
    }
    assert_eq!(desk.house.say("echo fine").await.0, "fine\n");
    let mut records = Records::new(reading.bytes);
    let overflow = async {
        let mut count = 0;
        loop {
            match records.next().await.unwrap() {
                Some(Item::Record(Record::Overflow)) => break,
                Some(_) => count += 1,
                None => panic!("the end after {count}"),
            }
        }
    };
    soon(overflow).await;
}

#[tokio::test]
async fn there_are_only_so_many_watches() {
    let desk = desk(Over::Pipes);
    let mut watches = Vec::new();
    let refused = loop {
        match soon(desk.files.watch(&desk.at(""), Depth::Itself)).await {
            Ok(watch) => watches.push(watch),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, FileError::TooManyWatches), "{refused:?}");
    assert_eq!(watches.len(), 4);
    watches.pop();
    soon(desk.files.watch(&desk.at(""), Depth::Itself)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_read_is_read_on() {
    let desk = desk(Over::Pipes);
    fs::write(desk.path("file"), vec![7; 1 << 20]).unwrap();
    let mut reading = soon(desk.files.read(&desk.at("file"), 0, None)).await.unwrap();
    fs::remove_file(desk.path("file")).unwrap();
    let mut bytes = Vec::new();
    soon(reading.bytes.read_to_end(&mut bytes)).await.unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    // A directory that goes away while it is walked is skipped or gone, and nothing hangs.
    fs::create_dir_all(desk.path("tree/a")).unwrap();
    let packed = soon(desk.files.pack(&desk.at("tree"))).await.unwrap();
    fs::remove_dir_all(desk.path("tree")).unwrap();
    let bounds = Bounds { bytes: 1, entries: 100 };
    soon(receive(packed.bytes, &desk.path("out"), bounds, |_| {})).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_read_to_its_end_is_not_taken_for_whole() {
    for over in BOTH {
        let desk = desk(over);
        // The kernel lets it be opened, and has nothing at its beginning.
        let mut reading = soon(desk.files.read(b"/proc/self/mem", 0, None)).await.unwrap();
        let mut bytes = Vec::new();
        soon(reading.bytes.read_to_end(&mut bytes)).await.unwrap();
        let unread = soon(reading.finish()).await.unwrap_err();
        let FileError::System(unread) = &unread else { panic!("{unread:?}") };
        assert_eq!(unread.raw_os_error(), Some(Errno::IO.raw_os_error()));

        let packed = soon(desk.files.pack(b"/proc/self/mem")).await.unwrap();
        let bounds = Bounds { bytes: 100, entries: 100 };
        let came =
            soon(receive(packed.bytes, &desk.path("out"), bounds, |_| {})).await.unwrap();
        assert_eq!(came.skipped, [b""]);
        assert!(!desk.path("out").exists());
    }
}
