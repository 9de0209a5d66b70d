//! A command or a shim is killed between two steps of a checkpoint or a fork: the next command
//! finds nothing that is half.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::Rooms;
use crate::host::Ran;

/// More places than any verb has.
const MOST: u32 = 60;

/// Runs `args`, dying at the `at`-th place.
fn dying(rooms: &Rooms, args: &[&str], at: u32) -> Ran {
    let mut command = rooms.host.command(args);
    command.env("BULKHEAD_CRASH_AT", at.to_string());
    rooms.host.ended(&mut command)
}

/// Every layer that is there has its final name and belongs to one of so many checkpoints.
fn is_whole(rooms: &Rooms, args: &[&str], at: u32) {
    let mut seen = String::new();
    // A shim holds its room a moment longer than its end is told.
    let settled = || {
        let checkpoints = rooms.fine(&["checkpoint", "ls", "-q"]).lines().count();
        let layers = fs::read_dir(rooms.host.state().join("layers")).into_iter().flatten();
        let layers: Vec<_> = layers.map(|it| it.unwrap().file_name()).collect();
        let records =
            fs::read_dir(rooms.host.state().join("checkpoints")).into_iter().flatten();
        let records: Vec<_> = records.map(|it| it.unwrap().file_name()).collect();
        seen = format!("{checkpoints} checkpoints, {layers:?}, {records:?}");
        layers.len() == checkpoints && records.len() == checkpoints
    };
    let done = poll(settled);
    assert!(done, "{args:?} at {at}: {seen}");
    assert_eq!(rooms.inside("cat /tmp/file"), "kept\n", "{args:?} at {at}");
}

/// Whether `done` comes true in time.
fn poll(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        if end < Instant::now() {
            return false;
        }
    }
    true
}

/// Lets `args` die at every place in turn, `after` each puts things as they were, until it lives.
fn survive(rooms: &Rooms, args: &[&str], after: impl Fn()) {
    for at in 1..MOST {
        let ran = dying(rooms, args, at);
        assert!(!ran.stderr.contains("panicked"), "{args:?} at {at}: {ran:?}");
        after();
        is_whole(rooms, args, at);
        if ran.code == Some(0) {
            assert!(1 < at, "{args:?} has no place to die at");
            return;
        }
    }
    panic!("{args:?} has no end of places to die at");
}

#[test]
fn a_command_that_dies_leaves_nothing_half() {
    let rooms = Rooms::with("shop");
    rooms.inside("echo kept > /tmp/file");
    let remove = |name: &str| drop(rooms.bulkhead(&["checkpoint", "rm", name]));
    survive(&rooms, &["checkpoint", "create", "shop", "one"], || remove("one"));
    let end_children = || {
        for child in ["child-1", "child-2"] {
            rooms.bulkhead(&["rm", "--force", child]);
        }
        rooms.fine(&["prune"]);
    };
    survive(&rooms, &["fork", "shop", "-n", "2", "--name", "child"], end_children);
    let again = || {
        rooms.bulkhead(&["checkpoint", "create", "shop", "two"]);
    };
    again();
    survive(&rooms, &["checkpoint", "rm", "two"], again);
}

#[test]
fn a_shim_that_dies_while_it_copies_takes_nothing_with_it() {
    let rooms = Rooms::with("shop");
    rooms.inside("echo kept > /tmp/file");
    let make = ["create", "--name", "other"];
    let first = (1..MOST).find(|at| dying(&rooms, &make, *at).code == Some(0)).unwrap();
    // This shim dies at the next place that it comes to, the one after that a place later.
    for at in [first, first + 1] {
        if at != first {
            assert_eq!(dying(&rooms, &make, at).code, Some(0));
        }
        let refused = rooms.bulkhead(&["checkpoint", "create", "other", "lost"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        is_whole(&rooms, &make, at);
        rooms.fine(&["prune"]);
    }
    assert_eq!(rooms.fine(&["ls", "-a", "-q"]), "shop\n");
}

#[test]
fn whoever_dies_over_the_disk_of_a_room_that_has_ended_leaves_it_as_it_was() {
    for rooms in Rooms::of_both() {
        dies_over_the_disk(&rooms);
    }
}

fn dies_over_the_disk(rooms: &Rooms) {
    rooms.fine(&["create", "--name", "shop", "--persist"]);
    rooms.inside("echo kept > /tmp/file");
    rooms.fine(&["stop", "shop"]);
    let create = ["checkpoint", "create", "shop", "one"];
    for at in 1..MOST {
        let ran = dying(rooms, &create, at);
        assert!(!ran.stderr.contains("panicked"), "{at}: {ran:?}");
        rooms.bulkhead(&["checkpoint", "rm", "one"]);
        // A copier whose command died goes on for a moment.
        let left = || rooms.bulkhead(&["start", "shop"]).code == Some(0);
        assert!(poll(left), "{at}: the room is held for ever");
        is_whole(rooms, &create, at);
        rooms.fine(&["stop", "shop"]);
        if ran.code == Some(0) {
            assert!(1 < at);
            return;
        }
    }
    panic!("there is no end of places to die at");
}
