//! Files into a room and out of it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, symlink},
    },
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::Rooms;
use crate::host::{Ran, within};

fn cp(rooms: &Rooms, from: &str, to: &str) -> Ran {
    rooms.bulkhead(&["cp", from, to])
}

fn copied(rooms: &Rooms, from: &str, to: &str) {
    let ran = cp(rooms, from, to);
    let silent = (Some(0), "", "");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), silent, "{from} {to}");
}

#[test]
fn files_go_in_and_come_out() {
    let rooms = Rooms::with("shop");
    rooms.host.write("a.txt", "hello\n");
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    copied(&rooms, &at("a.txt"), "shop:/tmp/b.txt");
    assert_eq!(rooms.inside("cat /tmp/b.txt"), "hello\n");
    // Into a directory that is there.
    copied(&rooms, &at("a.txt"), "shop:/tmp");
    copied(&rooms, &at("a.txt"), "shop:/tmp/");
    assert_eq!(rooms.inside("cat /tmp/a.txt"), "hello\n");
    rooms.inside("printf changed > /tmp/a.txt; chmod 750 /tmp/a.txt");
    copied(&rooms, "shop:/tmp/a.txt", &at("c.txt"));
    assert_eq!(fs::read_to_string(at("c.txt")).unwrap(), "changed");
    copied(&rooms, "shop:/tmp/a.txt", &at("home"));
    assert_eq!(fs::read_to_string(at("home/a.txt")).unwrap(), "changed");
    // What is relative begins in the workspace, which is the same inside and outside.
    rooms.inside("echo deep > here.txt");
    copied(&rooms, "shop:here.txt", &at("d.txt"));
    assert_eq!(fs::read_to_string(at("d.txt")).unwrap(), "deep\n");
    // A link of the host's stays one.
    symlink(at("c.txt"), at("link")).unwrap();
    copied(&rooms, "shop:/tmp/b.txt", &at("link"));
    assert_eq!(fs::read_to_string(at("c.txt")).unwrap(), "hello\n");
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
}

#[test]
fn trees_go_in_and_come_out_whole() {
    let rooms = Rooms::with("shop");
    let odd = OsStr::from_bytes(b"new\nline \xff");
    rooms.host.write("tree/sub/a", "a");
    fs::write(rooms.host.path().join("tree").join(odd), "odd").unwrap();
    symlink("sub/a", rooms.host.path().join("tree/link")).unwrap();
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    let look = "cd /tmp/copy && cat sub/a link && cat new*";
    copied(&rooms, &at("tree"), "shop:/tmp/copy");
    assert_eq!(rooms.inside(look), "aaodd");
    // A directory that is there gets the tree, or only what is in it.
    copied(&rooms, &at("tree"), "shop:/tmp/copy");
    copied(&rooms, &format!("{}/.", at("tree")), "shop:/tmp/copy");
    assert_eq!(
        rooms.inside("ls /tmp/copy/tree/sub /tmp/copy/sub"),
        "/tmp/copy/sub:\na\n\n/tmp/copy/tree/sub:\na\n"
    );
    rooms.inside("rm -r /tmp/copy/tree");
    copied(&rooms, "shop:/tmp/copy", &at("back"));
    assert_eq!(fs::read(rooms.host.path().join("back").join(odd)).unwrap(), b"odd");
    assert_eq!(fs::read_link(at("back/link")).unwrap().to_str(), Some("sub/a"));
    copied(&rooms, "shop:/tmp/copy", &at("back"));
    assert_eq!(fs::read_to_string(at("back/copy/sub/a")).unwrap(), "a");
}

#[test]
fn a_single_file_can_be_a_stream() {
    let rooms = Rooms::with("shop");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let ran = rooms.host.fed(&["cp", "-", "shop:/tmp/blob"], &bytes);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let out = rooms.host.command(["cp", "shop:/tmp/blob", "-"]).output().unwrap();
    assert_eq!((out.status.code(), out.stdout == bytes), (Some(0), true));
    // A reader that has enough is no trouble.
    let mut some = rooms.host.shell("\"$0\" cp shop:/tmp/blob - | head -c 3 | wc -c");
    assert_eq!(rooms.host.ended(&mut some).stdout.trim(), "3");
}

#[test]
fn what_cannot_be_copied_is_refused_and_nothing_is_broken() {
    let rooms = Rooms::with("shop");
    rooms.inside("mkfifo /tmp/pipe; mkdir /tmp/dir; mkfifo /tmp/dir/pipe; echo a > /tmp/dir/a");
    rooms.host.write("file", "kept");
    rooms.host.write("dir/a", "a");
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    let made = rooms.host.program("mkfifo").arg(at("pipe")).status().unwrap();
    assert!(made.success());
    let (file, dir, pipe, out) = (at("file"), at("dir"), at("pipe"), at("out"));
    let pairs = [
        ("shop:/tmp/pipe", out.as_str()),
        ("shop:/tmp/pipe", "-"),
        ("shop:/nowhere", &out),
        ("shop:/tmp/dir", &file),
        ("shop:/tmp/dir/a", "/nowhere/a"),
        ("shop:/tmp/dir/a", &pipe),
        ("shop:/tmp/dir", "-"),
        (&pipe, "shop:/tmp/x"),
        ("./nowhere", "shop:/tmp/x"),
        (&dir, "shop:/tmp/dir/a"),
        (&file, "shop:/tmp/pipe"),
        (&file, "shop:/nowhere/x"),
        (&file, "shop:/tmp/none/"),
        (&file, &dir),
        ("shop:/a", "shop:/b"),
        // The last one works, and says what it left out.
        ("shop:/tmp/dir", &out),
    ];
    let told = pairs.map(|(from, to)| {
        let shown = cp(&rooms, from, to).shown();
        let text = format!("$ bulkhead cp {from} {to}\n{shown}");
        text.replace(rooms.host.path().to_str().unwrap(), "[HOST]")
    });
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!(fs::read_to_string(file).unwrap(), "kept");
    assert_eq!(fs::read_to_string(at("out/a")).unwrap(), "a\n");
}

#[test]
fn what_cannot_be_read_to_its_end_is_not_said_to_be_copied() {
    let rooms = Rooms::with("shop");
    rooms.host.write("out/kept", "kept");
    let kept = rooms.host.path().join("out/kept").to_str().unwrap().to_owned();
    // The kernel lets it be opened, and has nothing at its beginning.
    let sleeper = rooms.inside("sleep 1000 > /dev/null 2>&1 & echo $!");
    let memory = format!("shop:/proc/{}/mem", sleeper.trim());
    for (to, why) in [("-", "Input/output error"), (&kept, "it could not be read to its end")] {
        let ran = cp(&rooms, &memory, to);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{to}: {}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(fs::read_dir(rooms.host.path().join("out")).unwrap().count(), 1);
}

#[test]
fn a_copy_that_is_stopped_leaves_nothing_half_done() {
    let rooms = Rooms::with("shop");
    rooms.host.write("out/kept", "kept");
    let (out, kept) = (rooms.host.path().join("out"), rooms.host.path().join("out/kept"));
    // As much as takes a while, and no place on the disk.
    rooms.inside("truncate -s 40G /tmp/great");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let args = ["cp", "--max-size", "80g", "shop:/tmp/great", kept.to_str().unwrap()];
        let mut copy = rooms.host.command(args).spawn().unwrap();
        within(Duration::from_secs(20), || fs::read_dir(&out).unwrap().count() == 2);
        kill_process(Pid::from_child(&copy), signal).unwrap();
        assert_eq!(copy.wait().unwrap().code(), Some(code));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    }
}

#[test]
fn more_than_was_allowed_does_not_come_out() {
    let rooms = Rooms::with("shop");
    rooms.inside("mkdir /tmp/d; head -c 2m /dev/zero > /tmp/d/big; touch /tmp/d/1 /tmp/d/2");
    rooms.host.write("big", "kept");
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    let bounded = |flag: [&str; 2], from: &str, to: &str| {
        rooms.bulkhead(&["cp", flag[0], flag[1], from, to]).shown()
    };
    let told = [
        bounded(["--max-size", "1m"], "shop:/tmp/d/big", &at("big")),
        bounded(["--max-files", "2"], "shop:/tmp/d", &at("many")),
    ];
    insta::assert_snapshot!(told.join("\n"));
    let stdout = rooms.bulkhead(&["cp", "--max-size", "1m", "shop:/tmp/d/big", "-"]);
    assert_eq!((stdout.code, stdout.stdout.len() <= 1 << 20), (Some(1), true));
    // What was there before is as it was, and no half of a file is left beside it.
    assert_eq!(fs::read_to_string(at("big")).unwrap(), "kept");
    let names = fs::read_dir(rooms.host.path()).unwrap().flatten().map(|it| it.file_name());
    assert!(names.into_iter().all(|it| !it.to_string_lossy().ends_with(".part")));
}

#[test]
#[ignore = "carries 8 GiB; test.sh --soak does"]
fn a_file_of_more_than_four_gibibytes_and_its_holes_go_both_ways() {
    const LENGTH: u64 = (4 << 30) + 7;
    let rooms = Rooms::with("shop");
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    rooms.host.write("big", "head");
    let big = fs::OpenOptions::new().write(true).open(at("big")).unwrap();
    big.set_len(LENGTH).unwrap();
    big.write_all_at(b"middle", 2 << 30).unwrap();
    copied(&rooms, &at("big"), "shop:/tmp/big");
    let seen = rooms.inside(
        "stat -c %s /tmp/big; head -c 4 /tmp/big; tail -c +2147483649 /tmp/big | head -c 6",
    );
    assert_eq!(seen, format!("{LENGTH}\nheadmiddle"));
    copied(&rooms, "shop:/tmp/big", &at("back"));
    let back = fs::File::open(at("back")).unwrap();
    let mut middle = [0; 6];
    back.read_exact_at(&mut middle, 2 << 30).unwrap();
    let facts = back.metadata().unwrap();
    assert_eq!((facts.len(), &middle), (LENGTH, b"middle"));
    // In blocks of 512 bytes.
    assert!(facts.blocks() < 1 << 12, "{}", facts.blocks());
}

#[test]
fn a_full_disk_is_told_on_either_side() {
    let rooms = Rooms { host: crate::host::Host::new() };
    rooms.fine(&["create", "--name", "shop", "--disk", "8m"]);
    rooms.host.write("big", &"x".repeat(16 << 20));
    let big = rooms.host.path().join("big");
    let ran = cp(&rooms, big.to_str().unwrap(), "shop:/tmp/big");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("No space left"), "{ran:?}");
    let fed = rooms.host.fed(&["cp", "-", "shop:/tmp/big"], &vec![0; 16 << 20]);
    assert!(fed.stderr.contains("No space left"), "{fed:?}");
    rooms.inside("rm -f /tmp/big; echo still works");
    // The host's own disk.
    rooms.inside("mkdir /tmp/tree; head -c 4m /dev/urandom > /tmp/tree/some");
    let mut command = rooms.host.shell(
        "unshare --mount sh -c 'mkdir -p small && mount -t tmpfs -o size=1m none small && \
         echo before > small/some && \"$0\" cp shop:/tmp/tree/some small/some; \
         \"$0\" cp shop:/tmp/tree small; ls -A small; cat small/some' \"$0\"",
    );
    let ran = rooms.host.ended(command.stdin(Stdio::null()));
    assert_eq!(ran.stderr.matches("No space left").count(), 2, "{ran:?}");
    // What was there is as it was, and nothing half is beside it.
    assert_eq!(ran.stdout, "some\ntree\nbefore\n", "{ran:?}");
}
