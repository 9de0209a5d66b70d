//! Names that lead to no room, or to more than one, said to every verb.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use super::Rooms;

/// Stands for the name that is said.
const NAME: &str = "NAME";

/// Every verb that is about a room, with the exit code that says that it could not be done.
const VERBS: [(&[&str], i32); 20] = [
    (&["exec", NAME, "--", "true"], 125),
    (&["cp", "NAME:/etc/passwd", "-"], 1),
    (&["cp", "NAME:/etc/passwd", "copy"], 1),
    (&["cp", "-", "NAME:/tmp/copy"], 1),
    (&["cp", ".", "NAME:/tmp/copy"], 1),
    (&["port", NAME, "80"], 1),
    (&["inspect", NAME], 1),
    (&["logs", NAME], 1),
    (&["attach", NAME], 125),
    (&["stats", NAME], 1),
    (&["update", NAME, "-e", "A=b"], 1),
    (&["pause", NAME], 1),
    (&["resume", NAME], 1),
    (&["start", NAME], 1),
    (&["checkpoint", "create", NAME], 1),
    (&["fork", NAME], 1),
    (&["stop", NAME], 1),
    (&["kill", NAME], 1),
    (&["rm", "--force", NAME], 1),
    (&["wait", NAME], 1),
];

/// Says `name` to every verb, and expects `said` and the exit code of the verb.
fn told(rooms: &Rooms, name: &str, said: &str) {
    for (verb, code) in VERBS {
        let args: Vec<String> = verb.iter().map(|it| it.replace(NAME, name)).collect();
        let ran = rooms.host.bulkhead(&args);
        let seen = (ran.code, ran.stdout.as_str(), ran.stderr.as_str());
        assert_eq!(seen, (Some(code), "", said), "{args:?}");
    }
}

#[test]
fn every_verb_says_that_there_is_no_such_room() {
    let rooms = Rooms::with("shop");
    let hint = "[BH-E060]\n  hint: `bulkhead ls --all` lists the rooms\n";
    told(&rooms, "absent", &format!("error: there is no room `absent` {hint}"));
    told(&rooms, "ab\nsent", &format!("error: there is no room `ab\\u{{a}}sent` {hint}"));
    assert_eq!(rooms.fine(&["ls", "--all", "-q"]), "shop\n");
}

#[test]
fn every_verb_says_which_rooms_a_beginning_could_mean() {
    let rooms = Rooms::with("shop-one");
    rooms.fine(&["create", "--name", "shop-two"]);
    // Those that have ended count, too.
    rooms.fine(&["kill", "shop-two"]);
    let hint = "hint: write more of the name; `bulkhead ls --all` lists the rooms";
    told(
        &rooms,
        "shop",
        &format!("error: `shop` could be shop-one, shop-two [BH-E060]\n  {hint}\n"),
    );
    assert_eq!(rooms.fine(&["ls", "-q"]), "shop-one\n");
}

#[test]
fn of_very_many_rooms_some_are_named() {
    let rooms = Rooms::none();
    for at in 1..=7 {
        rooms.fine(&["create", "--name", &format!("shop-{at}")]);
    }
    let ran = rooms.bulkhead(&["kill", "shop"]);
    let said = "`shop` could be shop-1, shop-2, shop-3, shop-4, shop-5 or 2 more";
    assert!(ran.stderr.contains(said), "{ran:?}");
}

#[test]
fn a_name_that_is_no_text_is_no_name() {
    let rooms = Rooms::with("shop");
    for (verb, code) in VERBS {
        let odd = |it: &&str| match it.strip_prefix(NAME) {
            Some(rest) => [b"sh\xffop", rest.as_bytes()].concat(),
            None => it.as_bytes().to_vec(),
        };
        let args: Vec<Vec<u8>> = verb.iter().map(odd).collect();
        let ran = rooms.host.bulkhead(args.iter().map(|it| OsStr::from_bytes(it)));
        // Only what may also be a path gets as far as to be looked for.
        let code = if verb.first() == Some(&"cp") { code } else { 2 };
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{verb:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{verb:?}: {ran:?}");
    }
}
