//! Trees that were made to escape from where they are put.

use std::{fs, os::unix::fs::symlink, path::Path};

use bulkhead_backends::guest::files::{Bounds, Facts, FileError, Kind, Record, receive};
use bulkhead_guest::wire::{encode, encode_data};

use crate::house::soon;

fn facts(kind: Kind) -> Facts {
    let target = (kind == Kind::Link).then(|| b"/tmp".to_vec());
    let notes = Vec::new();
    Facts { kind, size: 0, mode: 0o6777, owner: (0, 0), modified: (0, 0), target, notes }
}

fn entry(path: &[u8], kind: Kind) -> Vec<u8> {
    encode(&Record::Entry { path: path.to_vec(), facts: facts(kind) }).unwrap()
}

fn record(record: &Record) -> Vec<u8> {
    encode(record).unwrap()
}

async fn unpack(frames: &[Vec<u8>], top: &Path) -> Result<(), FileError> {
    let bounds = Bounds { bytes: 1000, entries: 100 };
    soon(receive(&*frames.concat(), top, bounds, |_| {})).await.map(drop)
}

#[tokio::test]
async fn nothing_is_written_outside() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let top = || entry(b"", Kind::Dir);
    let text = || {
        [entry(b"a/file", Kind::File), encode_data(0, b"x"), record(&Record::FileEnd)].concat()
    };
    let end = || record(&Record::End);
    let link = |target: &Path| {
        let target = Some(target.as_os_str().as_encoded_bytes().to_vec());
        let facts = Facts { target, ..facts(Kind::Link) };
        record(&Record::Entry { path: b"a".to_vec(), facts })
    };
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("climbs", vec![top(), entry(b"../file", Kind::File)]),
        ("climbs later", vec![top(), entry(b"a/../../file", Kind::File)]),
        ("absolute", vec![top(), entry(b"/tmp/file", Kind::File)]),
        ("empty part", vec![top(), entry(b"a//file", Kind::File)]),
        ("dot", vec![top(), entry(b".", Kind::Dir)]),
        ("nul", vec![top(), entry(b"a\0b", Kind::File)]),
        ("long", vec![top(), entry(&[b'x'; 5000], Kind::File)]),
        ("through its own link", vec![top(), link(&outside), text(), end()]),
        ("no top", vec![entry(b"file", Kind::File)]),
        ("second top", vec![top(), top()]),
        ("device", vec![top(), entry(b"a", Kind::Device)]),
        ("bytes of nothing", vec![top(), encode_data(0, b"x")]),
        ("inside a file", vec![top(), entry(b"a", Kind::File), entry(b"b", Kind::File)]),
        ("unfinished", vec![top(), entry(b"a", Kind::File), end()]),
        ("nothing", vec![end()]),
        ("cut off", vec![top()]),
        ("garbage", vec![vec![5, 0, 0, 0, 255, 255, 255, 255, 255]]),
    ];
    for (at, (what, frames)) in cases.into_iter().enumerate() {
        let top = dir.path().join(format!("top{at}"));
        assert!(unpack(&frames, &top).await.is_err(), "{what}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{what}");
        assert!(!dir.path().join("file").exists(), "{what}");
    }
}

#[tokio::test]
async fn a_link_that_lies_there_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, top) = (dir.path().join("outside"), dir.path().join("top"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&top).unwrap();
    fs::write(outside.join("file"), "kept").unwrap();
    symlink(&outside, top.join("a")).unwrap();
    symlink(outside.join("file"), top.join("b")).unwrap();
    let text = |path: &[u8]| {
        [entry(path, Kind::File), encode_data(0, b"new"), record(&Record::FileEnd)].concat()
    };
    let frames =
        [entry(b"", Kind::Dir), entry(b"a", Kind::Dir), text(b"a/file"), record(&Record::End)];
    assert!(unpack(&frames, &top).await.is_err());
    let frames = [entry(b"", Kind::Dir), text(b"b"), record(&Record::End)];
    unpack(&frames, &top).await.unwrap();
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
    assert_eq!(fs::read(top.join("b")).unwrap(), b"new");
}
