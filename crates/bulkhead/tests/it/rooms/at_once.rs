//! Two commands on one room at the same time.

use std::{
    fs::{self, File},
    process::Child,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use super::Rooms;
use crate::host::{Ran, hear, within};

/// Starts `args`.
fn started(rooms: &Rooms, args: &[&str]) -> Child {
    rooms.host.command(args).spawn().unwrap()
}

/// How it ended.
fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// It did its work, or says in a sentence why not.
fn is_sane(ran: &Ran, refused: i32) {
    match ran.code {
        Some(0) => {}
        Some(code) if code == refused => assert!(ran.stderr.contains("error: "), "{ran:?}"),
        _ => panic!("{ran:?}"),
    }
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn of_two_copies_to_one_place_one_is_there_whole() {
    const LENGTH: usize = 4 << 20;
    let rooms = Rooms::with("shop");
    rooms.host.write("a/file", &"a".repeat(LENGTH));
    rooms.host.write("b/file", &"b".repeat(LENGTH));
    let at = |name: &str| rooms.host.path().join(name).to_str().unwrap().to_owned();
    let both = |pairs: [[&str; 2]; 2]| {
        let children = pairs.map(|[from, to]| started(&rooms, &["cp", from, to]));
        for child in children {
            let ran = ended(child);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        }
    };
    let one = "tr -d '\\n' | fold -w 1048576 | sort -u | cut -c 1";
    for _ in 0..5 {
        both([[&at("a/file"), "shop:/tmp/file"], [&at("b/file"), "shop:/tmp/file"]]);
        let seen = rooms.inside(&format!("stat -c %s /tmp/file; {one} < /tmp/file"));
        assert!([format!("{LENGTH}\na\n"), format!("{LENGTH}\nb\n")].contains(&seen), "{seen}");
        // Trees as well.
        both([[&at("a/."), "shop:/tmp/tree"], [&at("b/."), "shop:/tmp/tree"]]);
        let seen = rooms.inside(&format!("ls /tmp/tree; {one} < /tmp/tree/file"));
        assert!(["file\na\n", "file\nb\n"].contains(&seen.as_str()), "{seen}");
    }
    rooms.inside(&format!(
        "cd /tmp; for i in a b; do yes $i | tr -d '\\n' | head -c {LENGTH} > $i; done"
    ));
    for _ in 0..5 {
        let out = at("out");
        both([["shop:/tmp/a", &out], ["shop:/tmp/b", &out]]);
        let seen = fs::read_to_string(&out).unwrap();
        assert!(
            [b'a', b'b'].map(|it| char::from(it).to_string().repeat(LENGTH)).contains(&seen)
        );
    }
}

#[test]
fn a_program_and_the_end_of_its_room() {
    for end in [["kill", "shop"].as_slice(), &["rm", "--force", "shop"], &["stop", "shop"]] {
        let rooms = Rooms::with("shop");
        let exec = ["exec", "shop", "--", "echo", "here"];
        let programs: Vec<Child> = (0..4).map(|_| started(&rooms, &exec)).collect();
        let end = started(&rooms, end);
        let late: Vec<Child> = (0..4).map(|_| started(&rooms, &exec)).collect();
        for program in programs.into_iter().chain(late) {
            let ran = ended(program);
            // It may have been asked to stop, and have spoken before its end got lost.
            if ran.code != Some(128 + Signal::TERM.as_raw()) {
                is_sane(&ran, 125);
            }
            assert!(ran.code != Some(0) || ran.stdout == "here\n", "{ran:?}");
        }
        let ran = ended(end);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(rooms.fine(&["ls", "-q"]), "");
    }
}

#[test]
fn two_who_end_one_room_both_have_what_they_want() {
    let pairs: [[&[&str]; 2]; 3] = [
        [&["kill", "shop"], &["kill", "shop"]],
        [&["rm", "--force", "shop"], &["rm", "--force", "shop"]],
        [&["kill", "shop"], &["rm", "--force", "shop"]],
    ];
    for pair in pairs {
        let rooms = Rooms::with("shop");
        for ran in pair.map(|it| started(&rooms, it)).map(ended) {
            is_sane(&ran, 1);
        }
        assert_eq!(rooms.fine(&["ls", "-q"]), "", "{pair:?}");
    }
}

/// Whoever copies the disk of a room that has ended holds its lock meanwhile.
#[test]
fn nobody_else_starts_copies_or_removes_a_room_whose_disk_is_being_copied() {
    let rooms = Rooms::none();
    rooms.fine(&["create", "--name", "shop", "--persist"]);
    rooms.inside("echo kept > /tmp/file");
    rooms.fine(&["stop", "shop"]);
    let listed = rooms.host.json(&["ls", "--all", "--json"])["rooms"][0].clone();
    let lock = rooms.host.state().join("rooms").join(listed["id"].as_str().unwrap());
    let lock = File::open(lock).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let verbs: [&[&str]; 4] = [
        &["start", "shop"],
        &["checkpoint", "create", "shop"],
        &["fork", "shop"],
        &["rm", "--force", "shop"],
    ];
    for verb in verbs {
        let ran = rooms.bulkhead(verb);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(75), ""), "{verb:?}: {ran:?}");
        assert!(ran.stderr.contains("somebody else uses the room `shop`"), "{verb:?}: {ran:?}");
    }
    // It has ended all the time, and is as it was.
    assert_eq!(rooms.host.json(&["ls", "--all", "--json"])["rooms"][0], listed);
    drop(lock);
    rooms.fine(&["start", "shop"]);
    assert_eq!(rooms.inside("cat /tmp/file"), "kept\n");
    // Whoever is told of the end can start it again.
    for _ in 0..5 {
        rooms.fine(&["kill", "shop"]);
        rooms.fine(&["start", "shop"]);
        assert_eq!(rooms.inside("cat /tmp/file"), "kept\n");
    }
}

#[test]
fn whoever_has_less_patience_ends_a_room_that_is_being_stopped() {
    let rooms = Rooms::with("shop");
    let script = "trap '' TERM; echo ready; sleep 60";
    let mut program = started(&rooms, &["exec", "shop", "--", "sh", "-c", script]);
    hear(&mut program, "ready");
    let stop = started(&rooms, &["stop", "--time", "50s", "shop"]);
    let state = || rooms.host.json(&["ls", "--json"])["rooms"][0]["state"].clone();
    within(Duration::from_secs(10), || state() == "starting or ending");
    // Nothing begins in it any more.
    let late = rooms.bulkhead(&["exec", "shop", "--", "true"]);
    assert_eq!(late.code, Some(125), "{late:?}");
    assert!(late.stderr.contains("it is about to end"), "{late:?}");
    let before = Instant::now();
    rooms.fine(&["kill", "shop"]);
    assert_eq!(ended(stop).code, Some(0));
    is_sane(&ended(program), 125);
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
}
