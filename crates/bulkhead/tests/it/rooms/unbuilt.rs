//! Rooms that the kernel refuses to build, although all that can be looked at before is in order.

use std::{fs, time::Duration};

use super::{Rooms, checkpoints::layers};
use crate::host::within;

/// What cannot be done with a file where the kernel is to find a directory.
const REFUSED: &str = "could not show a private copy of `layers/0/tmp`";

/// Makes `shop`, has what it wrote kept by a command, and makes that what nobody can mount.
fn spoil(rooms: &Rooms, kept: &[&str]) {
    rooms.fine(&["create", "--name", "shop"]);
    rooms.inside("echo mine > /tmp/file");
    rooms.fine(kept);
    for layer in layers(rooms) {
        let part = rooms.host.state().join("layers").join(layer).join("tmp");
        fs::remove_dir_all(&part).unwrap();
        fs::write(&part, "").unwrap();
    }
}

#[test]
fn a_room_that_cannot_be_built_is_not_said_to_be_there() {
    for rooms in Rooms::of_both() {
        spoil(&rooms, &["checkpoint", "create", "shop", "spoilt"]);
        let refused = rooms.bulkhead(&["checkpoint", "restore", "spoilt", "--name", "other"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(125), ""), "{refused:?}");
        assert!(refused.stderr.contains(REFUSED), "{refused:?}");
        // Nobody has heard of it, so nobody is told what became of it.
        assert_eq!(rooms.fine(&["ls", "-aq"]), "shop\n");
    }
}

#[test]
fn a_room_of_a_fork_that_cannot_be_built_ends_and_says_why() {
    for rooms in Rooms::of_both() {
        spoil(&rooms, &["fork", "shop", "--name", "first"]);
        rooms.fine(&["fork", "first-1", "-n", "2", "--name", "second"]);
        for name in ["second-1", "second-2"] {
            within(Duration::from_secs(30), || {
                rooms.host.json(&["inspect", name])["alive"] == false
            });
            let refused = rooms.bulkhead(&["exec", name, "--", "true"]);
            let why = format!("it could not be built: {REFUSED}");
            assert!(refused.stderr.contains(&why), "{refused:?}");
        }
    }
}
