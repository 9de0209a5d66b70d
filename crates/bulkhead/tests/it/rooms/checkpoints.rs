//! Checkpoints, forks and disks that are kept, as a user meets them.

use std::{fs, time::Duration};

use super::Rooms;
use crate::host::within;

/// What each step says, as it is seen on a terminal.
fn told(rooms: &Rooms, steps: &[&[&str]]) -> String {
    let step = |step: &&[&str]| {
        format!("$ bulkhead {}\n{}", step.join(" "), rooms.bulkhead(step).shown())
    };
    steps.iter().map(step).collect::<Vec<_>>().join("\n")
}

pub(super) fn layers(rooms: &Rooms) -> Vec<String> {
    let found = fs::read_dir(rooms.host.state().join("layers"));
    let names = found.into_iter().flatten().map(|it| it.unwrap().file_name());
    names.map(|it| it.into_string().unwrap()).collect()
}

/// A shim holds its room a moment longer than its end is told.
fn leaves_no_layer(rooms: &Rooms) {
    within(Duration::from_secs(30), || {
        rooms.fine(&["checkpoint", "ls", "-q"]);
        layers(rooms).is_empty()
    });
}

#[test]
fn a_checkpoint_from_its_first_day_to_its_last() {
    let rooms = Rooms::with("shop");
    rooms.inside("echo one > /tmp/file");
    let steps: [&[&str]; 17] = [
        &["checkpoint", "create", "shop", "good"],
        &["checkpoint", "create", "shop", "good"],
        &["checkpoint", "create", "nowhere"],
        &["checkpoint", "create", "shop", "not/a/name"],
        &["exec", "shop", "--", "rm", "/tmp/file"],
        &["checkpoint", "restore", "good"],
        &["checkpoint", "restore", "bad"],
        &["pause", "shop"],
        &["checkpoint", "restore", "good"],
        &["exec", "shop", "--", "cat", "/tmp/file"],
        &["checkpoint", "restore", "good", "--name", "shop"],
        &["checkpoint", "restore", "good", "--name", "beside"],
        &["exec", "beside", "--", "cat", "/tmp/file"],
        &["checkpoint", "rm", "bad"],
        &["checkpoint", "rm", "good"],
        &["exec", "beside", "--", "cat", "/tmp/file"],
        &["start", "shop"],
    ];
    insta::assert_snapshot!(told(&rooms, &steps));
    assert_eq!(layers(&rooms).len(), 1);
    rooms.fine(&["kill", "beside", "shop"]);
    leaves_no_layer(&rooms);
    let gone = rooms.bulkhead(&["checkpoint", "create", "shop"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("has ended, and its disk with it"), "{gone:?}");
    assert!(gone.stderr.contains("--persist") && gone.stderr.contains("pause"), "{gone:?}");
    let gone = rooms.bulkhead(&["fork", "shop"]);
    assert!(gone.stderr.contains("has ended, and its disk with it"), "{gone:?}");
}

#[test]
fn a_room_that_has_ended_is_copied_from_the_disk_that_was_kept() {
    for rooms in Rooms::of_both() {
        rooms.fine(&["create", "--name", "shop", "--persist", "--net", "proxy"]);
        rooms.inside(
            "echo kept > /tmp/a; echo b > ~/b; mkdir -m 0 /tmp/shut; echo gone > /tmp/c",
        );
        rooms.fine(&["stop", "shop"]);
        let before = rooms.host.json(&["ls", "--all", "--json"]);
        let made = rooms.host.json(&["checkpoint", "create", "shop", "still", "--json"]);
        assert_eq!(
            (&made["name"], &made["backend"]),
            (&"still".into(), &"native".into()),
            "{made}"
        );
        assert_eq!(made["bytes"], 12, "{made}");
        // Nothing is different about the room itself: when it ended, and why.
        assert_eq!(rooms.host.json(&["ls", "--all", "--json"])["rooms"], before["rooms"]);
        let look = "cat /tmp/a ~/b; test -d /tmp/shut && ls /tmp";
        rooms.fine(&["checkpoint", "restore", "still", "--name", "beside"]);
        let said = rooms.fine(&["exec", "beside", "--", "sh", "-c", look]);
        assert_eq!(said, "kept\nb\na\nc\nshut\n");
        // A second one is on top of what the room has changed since.
        rooms.fine(&["start", "shop"]);
        rooms.inside("rm /tmp/c; echo changed > /tmp/a");
        rooms.fine(&["kill", "shop"]);
        // Somebody else may have its name by now.
        rooms.fine(&["create", "--name", "other"]);
        assert_eq!(rooms.fine(&["fork", "shop", "-n", "2"]), "shop-1\nshop-2\n");
        for child in ["shop-1", "shop-2"] {
            let said = rooms.fine(&["exec", child, "--", "sh", "-c", look]);
            assert_eq!(said, "changed\nb\na\nshut\n");
        }
        rooms.fine(&["rm", "--force", "beside", "shop", "shop-1", "shop-2"]);
        rooms.fine(&["checkpoint", "rm", "still"]);
        leaves_no_layer(&rooms);
    }
}

#[test]
fn a_room_on_a_checkpoint_that_has_ended_is_copied_with_what_it_began_with() {
    for rooms in Rooms::of_both() {
        rooms.fine(&["create", "--name", "shop", "--persist"]);
        rooms.inside("echo first > /tmp/first; echo both > /tmp/removed");
        rooms.fine(&["fork", "shop"]);
        let change = "rm /tmp/removed; echo second > /tmp/second";
        rooms.fine(&["exec", "shop-1", "--", "sh", "-c", change]);
        rooms.fine(&["stop", "shop", "shop-1"]);
        rooms.fine(&["checkpoint", "create", "shop-1", "two"]);
        rooms.fine(&["rm", "shop", "shop-1"]);
        rooms.fine(&["checkpoint", "restore", "two", "--name", "shop"]);
        assert_eq!(
            rooms.inside("cd /tmp && ls && cat first second"),
            "first\nsecond\nfirst\nsecond\n"
        );
    }
}

#[test]
fn two_who_copy_a_room_that_has_ended_do_not_trouble_each_other() {
    for rooms in Rooms::of_both() {
        rooms.fine(&["create", "--name", "shop", "--persist"]);
        rooms.inside("echo kept > /tmp/a");
        rooms.fine(&["stop", "shop"]);
        let copy = |name: &str| {
            rooms.host.command(["checkpoint", "create", "shop", name]).spawn().unwrap()
        };
        let both = [copy("one"), copy("two")].map(|it| it.wait_with_output().unwrap());
        // Each is done, or told to come back.
        for ran in &both {
            let code = ran.status.code();
            assert!(code == Some(0) || code == Some(75), "{ran:?}");
        }
        assert!(both.iter().any(|it| it.status.success()), "{both:?}");
        rooms.fine(&["start", "shop"]);
        assert_eq!(rooms.inside("cat /tmp/a"), "kept\n");
    }
}

#[test]
fn forks_have_the_disk_of_their_parent_and_names_of_their_own() {
    let rooms = Rooms::with("shop");
    rooms.inside("echo mine > /tmp/file; echo a > /tmp/removed; rm /tmp/removed");
    assert_eq!(rooms.fine(&["fork", "shop", "-n", "3"]), "shop-1\nshop-2\nshop-3\n");
    let made = rooms.host.json(&["fork", "shop", "--name", "other", "--json"]);
    assert_eq!(made["rooms"][0]["name"], "other-1");
    let script =
        "ls /tmp; cat /tmp/file /etc/machine-id /proc/sys/kernel/random/boot_id; hostname";
    let mut seen = Vec::new();
    for room in ["shop", "shop-1", "shop-2", "shop-3", "other-1"] {
        let said = rooms.fine(&["exec", room, "--", "sh", "-c", script]);
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(lines[..2], ["file", "mine"]);
        seen.extend_from_slice(&lines[2..]);
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((all, seen.len()), (15, 15), "{seen:?}");
    // What one writes, no other sees.
    rooms.fine(&["exec", "shop-1", "--", "sh", "-c", "echo changed > /tmp/file"]);
    assert_eq!(rooms.fine(&["exec", "shop-2", "--", "cat", "/tmp/file"]), "mine\n");
    // A name that is taken is not taken again, and where one cannot be made none is.
    assert_eq!(rooms.fine(&["fork", "shop"]), "shop-4\n");
    let refused = rooms.bulkhead(&["fork", "shop", "-n", "2", "--name", "a/b"]);
    assert!(refused.stderr.contains("`a/b-1` cannot be the name of a room"), "{refused:?}");
    assert_eq!(rooms.fine(&["ls", "-q"]).lines().count(), 6);
}

/// A part of the disk that nobody had written to is an ordinary directory in a fork: what a program
/// writes there in the kernel's own words must not be taken for the kernel's.
#[test]
fn forks_of_forks_have_what_each_wrote_and_nothing_in_the_words_of_the_kernel() {
    let rooms = Rooms::with("shop");
    rooms.inside("mkdir /tmp/dir && echo first > /tmp/dir/file");
    rooms.fine(&["fork", "shop", "--name", "child"]);
    let script = "import os; os.mkdir('/var/tmp/dir'); open('/var/tmp/dir/file', 'w').write('second\\n'); \
                  os.setxattr('/var/tmp/dir', 'user.overlay.opaque', b'y'); os.remove('/tmp/dir/file')";
    rooms.fine(&["exec", "child-1", "--", "/usr/bin/python3", "-c", script]);
    rooms.fine(&["fork", "child-1", "--name", "grandchild"]);
    let look = "cat /var/tmp/dir/file && ls /tmp/dir && \
                /usr/bin/python3 -c \"import os; print(os.listxattr('/var/tmp/dir'))\"";
    let seen = rooms.fine(&["exec", "grandchild-1", "--", "sh", "-c", look]);
    assert_eq!(seen, "second\n[]\n");
    rooms.fine(&["kill", "shop", "child-1", "grandchild-1"]);
    leaves_no_layer(&rooms);
}

#[test]
fn a_disk_that_is_kept_is_there_when_the_room_is_started_again() {
    for rooms in Rooms::of_both() {
        rooms.fine(&["create", "--name", "other"]);
        rooms.fine(&["create", "--name", "shop", "--persist"]);
        rooms.inside("echo kept > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut");
        rooms.fine(&["stop", "shop"]);
        let ended = rooms.bulkhead(&["exec", "shop", "--", "true"]);
        assert!(ended.stderr.contains("bulkhead start shop"), "{ended:?}");
        assert_eq!(rooms.fine(&["start", "shop"]), "shop\n");
        assert_eq!(rooms.inside("cat /tmp/a ~/b; rm /tmp/a"), "kept\nhome\n");
        // Also after its shim was killed, as a restart of the host would.
        let shim = rooms.shim("shop");
        rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
        within(Duration::from_secs(30), || rooms.bulkhead(&["ls", "-q"]).stdout == "other\n");
        rooms.fine(&["prune"]);
        rooms.fine(&["start", "shop"]);
        assert_eq!(rooms.inside("ls /tmp"), "shut\n");
        // Its checkpoint is like any other, and a fork of it is kept as well.
        rooms.fine(&["checkpoint", "create", "shop", "kept"]);
        rooms.fine(&["fork", "shop"]);
        rooms.fine(&["stop", "shop-1"]);
        rooms.fine(&["start", "shop-1"]);
        let home = ["exec", "shop-1", "--", "sh", "-c", "cat ~/b"];
        assert_eq!(rooms.fine(&home), "home\n");
        rooms.fine(&["rm", "--force", "shop", "shop-1"]);
        rooms.fine(&["checkpoint", "rm", "kept"]);
        leaves_no_layer(&rooms);
    }
}

#[test]
fn a_bound_on_a_disk_that_is_kept_is_refused_where_nothing_holds_it() {
    let rooms = Rooms::with("other");
    let refused =
        rooms.bulkhead(&["create", "--persist", "--backend", "native", "--disk", "1g"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("no quota is set"), "{refused:?}");
    assert!(refused.stderr.contains("leave --disk and --inodes out"), "{refused:?}");
    rooms.fine(&["create", "--name", "kept", "--persist"]);
    let missing = rooms.host.json(&["inspect", "kept"])["room"]["missing"].to_string();
    assert!(missing.contains("DiskBounded"), "{missing}");
}
