//! What a crash, a thief of locks or a second process can do to the store: nothing.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicUsize, Ordering},
};

use bulkhead_spec::Digest;

use super::Store;
use crate::{
    ImageError,
    hash::digest_of,
    manifest::Config,
    unpack::{
        Caps,
        tests::{Packed, dir, file, symlink},
        unpack,
    },
};

fn store() -> (tempfile::TempDir, Store) {
    let whole = tempfile::tempdir().unwrap();
    let store = Store::open(&whole.path().join("images")).unwrap();
    (whole, store)
}

/// Puts a layer into the store and tells its digest.
fn add(store: &Store, packed: &Packed) -> Digest {
    let bytes = packed.bytes();
    let layer = digest_of(&bytes);
    if let Some(claim) = store.claim(layer).unwrap() {
        claim.fill(|dir| unpack(layer, &bytes[..], dir, Caps::USUAL)).unwrap();
    }
    layer
}

fn record(layers: &[Digest]) -> crate::manifest::Record {
    let text = serde_json::json!({ "rootfs": { "diff_ids": layers } }).to_string();
    Config::read(text.as_bytes()).unwrap().record(digest_of(text.as_bytes()))
}

#[test]
fn a_layer_that_fails_is_never_seen() {
    let (whole, store) = store();
    let layer = digest_of(b"x");
    let claim = store.claim(layer).unwrap().unwrap();
    let failed = claim.fill(|_| {
        let half = whole.path().join("images/tmp").join(layer.hex()).join("half");
        fs::write(half, "x").unwrap();
        Err(ImageError::Absent)
    });
    assert!(failed.is_err());
    assert!(store.claim(layer).unwrap().is_some());
    assert_eq!(fs::read_dir(whole.path().join("images/tmp")).unwrap().count(), 0);
}

#[test]
fn what_a_crash_left_is_swept_and_what_lives_is_not() {
    let (whole, store) = store();
    let (dead, alive) = (digest_of(b"dead"), digest_of(b"alive"));
    let tmp = whole.path().join("images/tmp");
    for layer in [dead, alive] {
        fs::create_dir(tmp.join(layer.hex())).unwrap();
        fs::write(tmp.join(layer.hex()).join("half"), "x").unwrap();
    }
    let claim = store.claim(alive).unwrap().unwrap();
    assert_eq!(store.sweep().unwrap(), [format!("part of layer {}", dead.hex())]);
    assert!(tmp.join(alive.hex()).join("half").exists());
    drop(claim);
    assert_eq!(store.sweep().unwrap().len(), 1);
    assert_eq!(fs::read_dir(tmp).unwrap().count(), 0);
}

#[test]
fn many_at_once_unpack_a_layer_once() {
    let (_whole, store) = store();
    let bytes = Packed::of([file("x", "y")]).bytes();
    let layer = digest_of(&bytes);
    let times = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                if let Some(claim) = store.claim(layer).unwrap() {
                    times.fetch_add(1, Ordering::SeqCst);
                    claim.fill(|dir| unpack(layer, &bytes[..], dir, Caps::USUAL)).unwrap();
                }
            });
        }
    });
    assert_eq!(times.load(Ordering::SeqCst), 1);
}

#[test]
fn a_layer_in_use_is_not_removed() {
    let (_whole, store) = store();
    let layer = add(&store, &Packed::of([dir("a"), file("a/x", "y")]));
    let record = record(&[layer, layer]);
    store.keep(&record, None).unwrap();
    let held = store.hold(&record).unwrap();
    // Once, though the image has it twice: an overlay would refuse it.
    assert_eq!(held.layers, [layer.hex()]);
    assert!(!store.remove(layer).unwrap());
    drop(held);
    assert!(store.remove(layer).unwrap());
    assert!(store.record(record.digest).is_none());
    assert!(store.hold(&record).is_err());
}

#[test]
fn a_store_that_others_could_write_is_not_used() {
    let (whole, _) = store();
    let dir = whole.path().join("images");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Store::open(&dir).is_err());
}

#[test]
fn what_will_be_seen_is_known_without_a_mount() {
    use super::Seen;
    let (_whole, store) = store();
    let below = add(
        &store,
        &Packed::of([
            dir("etc"),
            file("etc/passwd", "below"),
            file("etc/gone", ""),
            dir("hidden"),
            file("hidden/x", ""),
            dir("var"),
            symlink("var/tmp", "/tmp"),
            symlink("link", "etc"),
        ]),
    );
    let above = add(
        &store,
        &Packed::of([
            file("etc/.wh.gone", ""),
            file("etc/passwd", "above"),
            file("hidden/.wh..wh..opq", ""),
        ]),
    );
    let record = record(&[below, above]);
    store.keep(&record, None).unwrap();
    let held = store.hold(&record).unwrap();
    let seen =
        ["etc", "etc/passwd", "etc/gone", "hidden/x", "var/tmp", "link/passwd", "no/where"];
    let expected = [
        Seen::Directory,
        Seen::File,
        Seen::Nothing,
        Seen::Nothing,
        Seen::Other,
        Seen::Other,
        Seen::Nothing,
    ];
    assert_eq!(seen.map(|it| held.look(it)), expected);
    assert_eq!(held.text("etc/passwd", 100).as_deref(), Some("above"));
    assert_eq!(held.text("etc/passwd", 2), None);
}

#[test]
fn an_image_is_let_go_with_the_layers_that_nobody_else_needs() {
    let (_whole, store) = store();
    let [shared, own, other] =
        ["shared", "own", "other"].map(|name| add(&store, &Packed::of([file(name, name)])));
    let (one, two) = (record(&[shared, own]), record(&[shared, other]));
    let name = "example.org/tool:1".parse().unwrap();
    store.keep(&one, Some(&name)).unwrap();
    store.keep(&two, None).unwrap();

    let listed = store.list().unwrap();
    let names: Vec<_> = listed.iter().map(|it| (it.id.clone(), it.tags.clone())).collect();
    let expected = [
        (two.digest.to_string(), vec![]),
        (one.digest.to_string(), vec!["example.org/tool:1".to_owned()]),
    ];
    assert_eq!(names, expected);
    assert!(listed.iter().all(|it| !it.used && it.since.is_some()));
    assert_eq!(listed[1].size, 9, "`shared` and `own`");

    let held = store.hold(&two).unwrap();
    assert_eq!(store.list().unwrap().iter().filter(|it| it.used).count(), 2);
    store.forget(one.digest).unwrap();
    assert!(store.named(&name).is_none());
    assert!(!store.layer(own).exists());
    assert!(store.layer(shared).exists());
    // What a sandbox uses stays on the disk until it has ended.
    store.forget(two.digest).unwrap();
    assert!(store.layer(other).exists());
    drop(held);
    assert!(store.list().unwrap().is_empty());
}
