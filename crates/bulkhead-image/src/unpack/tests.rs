//! Layers that attack whoever unpacks them, one by one.
//!
//! Each attack that leads out of the layer is first shown to work on a naive unpacker, so that a
//! test which proves nothing is noticed.

mod naive;
mod packed;

use std::{
    fs,
    io::Read as _,
    os::{
        fd::AsFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        },
    },
    path::Path,
};

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::{Caps, unpack};
use crate::{ImageError, hash::digest_of};

pub(crate) use packed::{Packed, dir, file, hard_link, symlink};

/// A directory for a layer, beside a file that must not change.
struct Place {
    whole: TempDir,
}

impl Place {
    fn new() -> Self {
        let whole = tempfile::tempdir().unwrap();
        fs::create_dir(whole.path().join("layer")).unwrap();
        fs::create_dir(whole.path().join("outside")).unwrap();
        fs::write(whole.path().join("outside/file"), "untouched").unwrap();
        Self { whole }
    }

    fn layer(&self) -> std::path::PathBuf {
        self.whole.path().join("layer")
    }

    fn outside(&self) -> std::path::PathBuf {
        self.whole.path().join("outside")
    }

    fn unpack(&self, packed: &[u8], caps: Caps) -> Result<(), ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let into = rustix::fs::open(self.layer(), flags, Mode::empty()).unwrap();
        unpack(digest_of(packed), packed, into.as_fd(), caps)
    }

    /// What is outside, by name and content.
    fn seen(&self) -> Vec<(String, String)> {
        let names = |dir: &Path| {
            let all = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
            let mut all: Vec<_> = all.filter(|it| !it.ends_with("layer")).collect();
            all.sort();
            all
        };
        let files = names(self.whole.path()).into_iter().chain(names(&self.outside()));
        files
            .map(|it| {
                let links = fs::symlink_metadata(&it).unwrap().nlink();
                let text = fs::read_to_string(&it).unwrap_or_default();
                (format!("{} {links}", it.display()), text)
            })
            .collect()
    }
}

fn refused(result: Result<(), ImageError>) -> String {
    match result {
        Err(ImageError::Hostile { why, .. }) => why.to_owned(),
        Err(other) => other.to_string(),
        Ok(()) => "nothing".to_owned(),
    }
}

/// A naive unpacker is bitten by `attack`, and ours says `why`.
#[track_caller]
fn bites(attack: impl Fn(&Path) -> Packed, why: &str) {
    let bitten = Place::new();
    let before = bitten.seen();
    naive::unpack(&attack(&bitten.outside()).bytes(), &bitten.layer());
    assert_ne!(bitten.seen(), before, "the attack does nothing");
    let place = Place::new();
    let before = place.seen();
    let said = refused(place.unpack(&attack(&place.outside()).bytes(), Caps::USUAL));
    assert_eq!(said, why);
    assert_eq!(place.seen(), before);
}

#[test]
fn a_name_that_climbs() {
    bites(|_| Packed::of([file("../outside/file", "evil")]), "its name climbs out");
    bites(
        |_| Packed::of([dir("a"), file("a/../../outside/new", "evil")]),
        "its name climbs out",
    );
}

#[test]
fn a_file_below_a_symbolic_link() {
    let why = "a symbolic link is on the way to it";
    bites(|_| Packed::of([symlink("way", "../outside"), file("way/file", "evil")]), why);
    bites(
        |outside| {
            let outside = outside.to_str().unwrap();
            Packed::of([symlink("way", outside), file("way/new", "evil")])
        },
        why,
    );
    bites(
        |_| {
            let links = [symlink("a", "b"), symlink("b", "../outside"), dir("c")];
            Packed::of(links.into_iter().chain([file("a/new", "evil")]))
        },
        why,
    );
}

#[test]
fn a_directory_below_a_symbolic_link() {
    bites(
        |_| Packed::of([symlink("way", "../outside"), dir("way/new")]),
        "a symbolic link is on the way to it",
    );
}

#[test]
fn a_file_in_the_place_of_a_symbolic_link() {
    let attack = |_: &Path| Packed::of([symlink("x", "../outside/file"), file("x", "evil")]);
    let bitten = Place::new();
    naive::unpack(&attack(&bitten.outside()).bytes(), &bitten.layer());
    assert_eq!(fs::read_to_string(bitten.outside().join("file")).unwrap(), "evil");
    // Ours replaces the link itself.
    let place = Place::new();
    place.unpack(&attack(&place.outside()).bytes(), Caps::USUAL).unwrap();
    assert_eq!(fs::read_to_string(place.outside().join("file")).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(place.layer().join("x")).unwrap(), "evil");
}

#[test]
fn a_hard_link_that_leads_out() {
    bites(|_| Packed::of([hard_link("x", "../outside/file")]), "its name climbs out");
    bites(
        |outside| Packed::of([hard_link("x", outside.join("file").to_str().unwrap())]),
        "it is a hard link to nothing in this layer",
    );
    bites(
        |_| Packed::of([symlink("way", "../outside"), hard_link("x", "way/file")]),
        "a symbolic link is on the way to it",
    );
}

#[test]
fn hard_links_within_a_layer_are_links() {
    let place = Place::new();
    let packed = Packed::of([dir("a"), file("a/one", "same"), hard_link("two", "/a/one")]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    let about = |name: &str| fs::metadata(place.layer().join(name)).unwrap().ino();
    assert_eq!(about("a/one"), about("two"));
    let itself = Packed::of([file("x", "1"), hard_link("x", "x")]);
    let said = refused(Place::new().unpack(&itself.bytes(), Caps::USUAL));
    assert_eq!(said, "it is a hard link to itself");
    let gone = Packed::of([file(".wh.x", ""), hard_link("y", "x")]);
    let said = refused(Place::new().unpack(&gone.bytes(), Caps::USUAL));
    assert_eq!(said, "it is a hard link to nothing in this layer");
}

#[test]
fn an_absolute_name_is_below_the_root_of_the_layer() {
    let attack =
        |outside: &Path| Packed::of([file(outside.join("file").to_str().unwrap(), "evil")]);
    let bitten = Place::new();
    naive::unpack(&attack(&bitten.outside()).bytes(), &bitten.layer());
    assert_eq!(fs::read_to_string(bitten.outside().join("file")).unwrap(), "evil");
    let place = Place::new();
    let before = place.seen();
    place.unpack(&attack(&place.outside()).bytes(), Caps::USUAL).unwrap();
    assert_eq!(place.seen(), before);
    let inside = place.outside().join("file");
    let inside = place.layer().join(inside.strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(inside).unwrap(), "evil");
}

#[test]
fn devices_are_refused_but_where_nobody_sees_them() {
    for kind in [b'3', b'4'] {
        let packed = Packed::of([packed::entry(b"disk", kind, 0o666, b"", b"")]);
        let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
        assert_eq!(said, "it is a device");
        let place = Place::new();
        let packed =
            Packed::of([dir("dev"), packed::entry(b"dev/null", kind, 0o666, b"", b"")]);
        place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
        assert!(!place.layer().join("dev/null").exists());
    }
}

#[test]
fn rights_of_others_are_left_out() {
    let place = Place::new();
    let packed = Packed::of([
        packed::entry(b"su", b'0', 0o6755, b"", b"x"),
        packed::entry(b"shared", b'5', 0o3777, b"", b""),
        packed::entry(b"locked", b'0', 0, b"", b"x"),
        packed::entry(b"sealed", b'5', 0, b"", b""),
    ]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    let mode =
        |name: &str| fs::metadata(place.layer().join(name)).unwrap().permissions().mode();
    let modes = ["su", "shared", "locked", "sealed"].map(|name| mode(name) & 0o7777);
    assert_eq!(modes, [0o755, 0o1777, 0o600, 0o700]);
}

#[test]
fn removals_are_said_in_the_kernels_words() {
    let place = Place::new();
    let packed = Packed::of([
        dir("a"),
        file("a/.wh.gone", ""),
        dir("b"),
        file("b/.wh..wh..opq", ""),
        // Removed and made anew: what is below must not shine through.
        file(".wh.c", ""),
        dir("c"),
        file("c/new", "x"),
        file(".wh.d", ""),
        file("d/e/new", "x"),
        dir("f"),
        file(".wh.f", ""),
        file(".wh.g", ""),
        file("g", "x"),
        file(".wh..wh.plnk", ""),
        file(".wh..wh.aufs/x", ""),
    ]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    let kind = |name: &str| {
        let about = fs::symlink_metadata(place.layer().join(name)).unwrap();
        (about.file_type().is_char_device(), about.rdev(), about.is_dir())
    };
    assert_eq!(kind("a/gone"), (true, 0, false));
    assert_eq!(kind("g"), (false, 0, false));
    for (name, hides) in
        [("a", false), ("b", true), ("c", true), ("d", true), ("d/e", false), ("f", true)]
    {
        let mut value = [0_u8; 8];
        let path = place.layer().join(name);
        let found = rustix::fs::getxattr(&path, "user.overlay.opaque", &mut value);
        assert_eq!(
            found.ok().map(|it| value[..it].to_vec()),
            hides.then(|| b"y".to_vec()),
            "{name}"
        );
    }
    let mut top: Vec<_> =
        fs::read_dir(place.layer()).unwrap().map(|it| it.unwrap().file_name()).collect();
    top.sort();
    assert_eq!(top, ["a", "b", "c", "d", "f", "g"]);
}

#[test]
fn games_with_removals_are_refused() {
    for (name, why) in [
        (".wh.", "it marks the removal of no name"),
        ("a/.wh..", "it marks the removal of no name"),
        ("a/.wh...", "it marks the removal of no name"),
        (".wh.a/b", "it lies below a name that marks a removal"),
    ] {
        let packed = Packed::of([file(name, "")]);
        let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
        assert_eq!(said, why, "{name}");
    }
    let packed = Packed::of([dir(".wh.a")]);
    let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
    assert_eq!(said, "a directory cannot mark a removal");
}

#[test]
fn a_name_that_comes_twice() {
    let place = Place::new();
    let packed =
        Packed::of([file("x", "one"), file("x", "two"), dir("y"), dir("y"), file("y/z", "")]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    assert_eq!(fs::read_to_string(place.layer().join("x")).unwrap(), "two");
    for second in [file("x", "evil"), symlink("x", "/etc"), hard_link("x", "y")] {
        let packed = Packed::of([file("y", ""), dir("x"), file("x/a", ""), second]);
        let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
        assert_eq!(said, "it replaces a directory of the same layer");
    }
    let packed = Packed::of([file("x", ""), file("x/y", "")]);
    let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
    assert_eq!(said, "a file is on the way to it");
}

#[test]
fn names_need_not_be_text() {
    let place = Place::new();
    let name = b"caf\xe9\x1b[2J";
    let packed = Packed::of([packed::entry(name, b'0', 0o644, b"", b"x")]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    let found = fs::read_dir(place.layer()).unwrap().next().unwrap().unwrap().file_name();
    assert_eq!(found.as_bytes(), name);
    // In a message they are harmless.
    let packed = Packed::of([packed::entry(name, b'3', 0o644, b"", b"")]);
    let said = place.unpack(&packed.bytes(), Caps::USUAL).unwrap_err().to_string();
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn long_names_are_read_and_endless_ones_refused() {
    let place = Place::new();
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let packed = Packed::of([
        packed::entry(b"././@LongLink", b'L', 0o644, b"", long.as_bytes()),
        file("cut", "x"),
        packed::extended(&[("path", &format!("{long}2")), ("mtime", "12.5")]),
        file("cut", "y"),
    ]);
    place.unpack(&packed.bytes(), Caps::USUAL).unwrap();
    assert_eq!(fs::read_to_string(place.layer().join(&long)).unwrap(), "x");
    let second = place.layer().join(format!("{long}2"));
    assert_eq!(fs::metadata(&second).unwrap().mtime(), 12);

    let huge = vec![b'a'; 2 << 20];
    for kind in *b"LKx" {
        let packed = Packed::of([packed::entry(b"x", kind, 0o644, b"", &huge), file("y", "")]);
        let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
        assert!(said.ends_with("a name or an extension is too long"), "{said}");
    }
    let deep = "d/".repeat(300) + "f";
    let packed = Packed::of([
        packed::entry(b"././@LongLink", b'L', 0o644, b"", deep.as_bytes()),
        file("cut", "x"),
    ]);
    assert_eq!(refused(Place::new().unpack(&packed.bytes(), Caps::USUAL)), "it lies too deep");
}

#[test]
fn files_with_holes_are_refused() {
    let why = "it is of a kind that images do not have";
    let old = Packed::of([packed::entry(b"x", b'S', 0o644, b"", b"")]);
    assert_eq!(refused(Place::new().unpack(&old.bytes(), Caps::USUAL)), why);
    let new = Packed::of([packed::extended(&[("GNU.sparse.major", "1")]), file("x", "")]);
    assert_eq!(refused(Place::new().unpack(&new.bytes(), Caps::USUAL)), why);
}

#[test]
fn a_layer_that_lies_about_its_size_is_refused() {
    let mut packed = Packed::of([file("x", &"y".repeat(2000))]).bytes();
    packed.truncate(1024);
    let said = refused(Place::new().unpack(&packed, Caps::USUAL));
    assert!(said.contains("ends too early") || said.contains("unpack `x`"), "{said}");
    let packed =
        Packed::of([packed::extended(&[("size", "18446744073709551615")]), file("x", "")]);
    let said = refused(Place::new().unpack(&packed.bytes(), Caps::USUAL));
    assert!(said.contains("out of range"), "{said}");
    let mut damaged = Packed::of([file("x", "y")]).bytes();
    damaged[0] ^= 1;
    let said = refused(Place::new().unpack(&damaged, Caps::USUAL));
    assert!(said.contains("damaged"), "{said}");
}

#[test]
fn another_layer_than_was_promised_is_refused() {
    let place = Place::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let into = rustix::fs::open(place.layer(), flags, Mode::empty()).unwrap();
    let packed = Packed::of([file("x", "y")]).bytes();
    let error =
        unpack(digest_of(b"other"), &packed[..], into.as_fd(), Caps::USUAL).unwrap_err();
    assert!(matches!(error, ImageError::Digest { .. }), "{error}");
    // Also what comes after the end of the archive belongs to it.
    let longer = [packed.as_slice(), b"more"].concat();
    let error = unpack(digest_of(&packed), &longer[..], into.as_fd(), Caps::USUAL).unwrap_err();
    assert!(matches!(error, ImageError::Digest { .. }), "{error}");
}

#[test]
fn bombs_are_refused_while_they_go_off() {
    let many = Packed::of((0..100).map(|at| file(&format!("f{at}"), "")));
    let caps = Caps { entries: 50, ..Caps::USUAL };
    assert_eq!(refused(Place::new().unpack(&many.bytes(), caps)), "it has too many entries");
    let large = Packed::of([file("x", &"y".repeat(100_000))]);
    let caps = Caps { bytes: 50_000, ..Caps::USUAL };
    let said = refused(Place::new().unpack(&large.bytes(), caps));
    assert!(said.contains("more than is allowed"), "{said}");
}

/// Thousands of zeros for each byte: they are not written out to the end.
#[test]
fn a_stream_that_unpacks_to_many_times_its_size_is_refused() {
    let head = packed::entry(b"x", b'0', 0o644, b"", b"");
    let mut header = head[..512].to_vec();
    packed::set_size(&mut header, 1 << 30);
    let zeros = std::io::repeat(0).take(30 << 20);
    let stream = header.as_slice().chain(zeros);
    let mut gzip = flate2::read::GzEncoder::new(stream, flate2::Compression::fast());
    let mut packed = Vec::new();
    gzip.read_to_end(&mut packed).unwrap();
    assert!(packed.len() < 400 << 10, "{}", packed.len());
    let place = Place::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let into = rustix::fs::open(place.layer(), flags, Mode::empty()).unwrap();
    let caps = Caps { ratio: 20, unasked: 1 << 20, ..Caps::USUAL };
    let error = unpack(digest_of(b""), &packed[..], into.as_fd(), caps).unwrap_err();
    assert!(error.to_string().contains("many times its size"), "{error}");
}

#[test]
fn layers_may_be_compressed_in_any_way() {
    let plain = Packed::of([file("x", "content")]).bytes();
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(&plain[..], flate2::Compression::default())
        .read_to_end(&mut gzip)
        .unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(&plain[..], level);
    // Several frames are one stream.
    let halves = plain.split_at(700);
    let frames = [halves.0, halves.1]
        .map(|half| ruzstd::encoding::compress_to_vec(half, level))
        .concat();
    for packed in [plain.clone(), gzip, zstd, frames] {
        let place = Place::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let into = rustix::fs::open(place.layer(), flags, Mode::empty()).unwrap();
        unpack(digest_of(&plain), &packed[..], into.as_fd(), Caps::USUAL).unwrap();
        assert_eq!(fs::read_to_string(place.layer().join("x")).unwrap(), "content");
    }
}
