//! A host that has no place for another room.

use super::Rooms;

#[test]
fn there_are_no_more_rooms_than_the_configuration_allows() {
    let rooms = Rooms::none();
    rooms.host.user("[rooms]\nmost = 3\nper-label = [\"team=1\"]\n");
    rooms.fine(&["create", "--name", "one", "--label", "team=a"]);
    rooms.fine(&["create", "--name", "two", "--label", "team=b"]);
    let mut told = vec![];
    let steps: [&[&str]; 2] = [
        &["create", "--name", "three", "--label", "team=a"],
        &["create", "--name", "three", "--label", "team=a", "--json"],
    ];
    for step in steps {
        told.push(format!("$ bulkhead {}\n{}", step.join(" "), rooms.bulkhead(step).shown()));
    }
    rooms.fine(&["create", "--name", "three"]);
    let step = ["create", "--name", "four"];
    told.push(format!("$ bulkhead {}\n{}", step.join(" "), rooms.bulkhead(&step).shown()));
    insta::assert_snapshot!(told.join("\n"));
    // One that ends makes place for another.
    rooms.fine(&["kill", "one"]);
    rooms.fine(&["create", "--name", "four", "--label", "team=a"]);
}

#[test]
fn what_is_kept_of_the_host_is_kept_from_everybody() {
    for (key, value) in [
        ("memory", "\"1000t\""),
        ("pids", "1000000000"),
        ("disk", "\"1000t\""),
        ("inodes", "1000000000000"),
        ("files", "9223372036854775807"),
    ] {
        let rooms = Rooms::none();
        rooms.host.user(&format!("[reserve]\n{key} = {value}\n"));
        let refused = rooms.bulkhead(&["create", "--name", "shop"]);
        assert_eq!(refused.code, Some(75), "{key}: {refused:?}");
        assert!(refused.stderr.contains(&format!("reserve.{key}")), "{key}: {refused:?}");
        assert!(refused.stderr.contains("try again in 5s"), "{key}: {refused:?}");
        let run = rooms.bulkhead(&["run", "--", "true"]);
        // A run looks at the memory only: it is over soon.
        assert_eq!(run.code, Some(if key == "memory" { 75 } else { 0 }), "{key}: {run:?}");
        assert_eq!(rooms.fine(&["ls", "-a", "-q"]), "");
    }
}

#[test]
fn a_project_does_not_say_how_many_rooms_there_may_be() {
    let rooms = Rooms::none();
    rooms.host.project_file("[rooms]\nmost = 1000\n");
    let refused = rooms.bulkhead(&["create", "--name", "shop"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("bulkhead trust"), "{refused:?}");
}
