//! Rooms that were made before somebody wanted one.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use rustix::process::Pid;

use super::Rooms;
use crate::host::within;

/// What every room here is asked for with.
const CREATE: [&str; 2] = ["create", "--no-workspace"];

fn waiting(rooms: &Rooms) -> usize {
    rooms.fine(&["pool", "ls", "-q"]).lines().count()
}

/// Until so many wait again, in the place of those that were handed out.
fn refilled(rooms: &Rooms, size: usize) {
    within(Duration::from_secs(30), || waiting(rooms) == size);
}

fn create(rooms: &Rooms, more: &[&str]) -> String {
    rooms.fine(&[&CREATE, more].concat()).trim().to_owned()
}

/// Whether a room was made ahead, as it says itself.
fn was_made_ahead(rooms: &Rooms, name: &str) -> bool {
    let pool = &rooms.host.json(&["inspect", name])["room"]["pool"];
    match pool.as_str() {
        Some("no") => false,
        Some(_) | None => pool["taken"]["made"].is_u64(),
    }
}

#[test]
fn a_room_made_ahead_is_whoever_takes_it() {
    let rooms = Rooms::none();
    assert_eq!(rooms.fine(&["pool", "fill", "--size", "2"]), "2\n");
    // Who fills it again finds it full.
    assert_eq!(rooms.fine(&["pool", "fill", "--size", "2"]), "0\n");
    assert_eq!(waiting(&rooms), 2);
    assert_eq!(rooms.fine(&["ls", "-a", "-q"]), "");

    let more = ["--name", "shop", "-e", "WORD=heard", "--label", "team=one", "--ttl", "1h"];
    let waited = rooms.fine(&["pool", "ls", "-q"]);
    assert_eq!(create(&rooms, &more), "shop");
    let id = rooms.host.json(&["inspect", "shop"])["room"]["id"].as_str().unwrap().to_owned();
    assert!(waited.contains(&id), "{waited} {id}");
    assert_eq!(rooms.inside("echo $WORD in $HOME"), "heard in [HOST]/home\n");
    let shown = rooms.host.json(&["inspect", "shop"]);
    let room = &shown["room"];
    assert_eq!((&room["name"], &room["labels"]["team"]), (&"shop".into(), &"one".into()));
    assert!(3500.0 < room["left_seconds"].as_f64().unwrap(), "{room}");
    assert!(was_made_ahead(&rooms, "shop"));
    assert_eq!(rooms.fine(&["ls", "-q", "--label", "team=one"]), "shop\n");

    // Another one is made in its place, which nobody waited for.
    refilled(&rooms, 2);
    // One that is called by its id has the id that it waited with.
    let named = rooms.fine(&["pool", "ls", "-q"]);
    let taken = create(&rooms, &[]);
    assert!(named.lines().any(|it| it == taken), "{named} {taken}");
    refilled(&rooms, 2);
    // Also if it is gone sooner than that is begun.
    create(&rooms, &["--name", "brief"]);
    rooms.fine(&["rm", "-f", "brief"]);
    refilled(&rooms, 2);
    // When none waits, one is made.
    assert_eq!(rooms.fine(&["pool", "drain"]), "2\n");
    assert_eq!(create(&rooms, &["--name", "late"]), "late");
    assert!(!was_made_ahead(&rooms, "late"));
    assert_eq!(waiting(&rooms), 0, "a pool that was drained is filled again");
    // The name of a living room is taken, whether its next owner waits for it or not.
    rooms.fine(&["pool", "fill", "--size", "1"]);
    let again = rooms.bulkhead(&["create", "--no-workspace", "--name", "late"]);
    assert_eq!((again.code, waiting(&rooms)), (Some(125), 1), "{again:?}");
    assert_eq!(rooms.fine(&["pool", "drain"]), "1\n");
    assert_eq!(waiting(&rooms), 0);
}

#[test]
fn a_room_of_another_kind_is_not_what_waits() {
    let rooms = Rooms::none();
    rooms.fine(&["pool", "fill", "--size", "1", "--pids", "40"]);
    for (name, other) in
        [("plain", &[][..]), ("other", &["--pids", "41"]), ("tmp", &["--tmpfs", "/mnt"])]
    {
        create(&rooms, &[&["--name", name], other].concat());
        assert!(!was_made_ahead(&rooms, name), "{name}");
    }
    // A workspace is looked at when somebody wants to work there.
    rooms.fine(&["create", "--name", "work", "--pids", "40"]);
    assert!(!was_made_ahead(&rooms, "work"));
    create(&rooms, &["--name", "same", "--pids", "40"]);
    assert!(was_made_ahead(&rooms, "same"));
}

#[test]
fn what_the_rules_would_no_longer_make_so_is_not_handed_out_but_ended() {
    let rooms = Rooms::none();
    rooms.fine(&["pool", "fill", "--size", "2"]);
    rooms.host.user("[limits]\npids = 33\n");
    create(&rooms, &["--name", "shop"]);
    assert!(!was_made_ahead(&rooms, "shop"));
    assert_eq!(rooms.inside("cat /proc/self/stat >/dev/null; echo fine"), "fine\n");
    assert_eq!(waiting(&rooms), 0);
    rooms.fine(&["pool", "fill", "--size", "1"]);
    create(&rooms, &["--name", "next"]);
    assert!(was_made_ahead(&rooms, "next"));
}

#[test]
fn those_who_want_one_at_once_never_get_the_same() {
    let rooms = Rooms::none();
    rooms.fine(&["pool", "fill", "--size", "3"]);
    let waited: BTreeSet<String> =
        rooms.fine(&["pool", "ls", "-q"]).lines().map(str::to_owned).collect();
    let all: Vec<_> = (0..6)
        .map(|_| rooms.host.command(["create", "--no-workspace"]).spawn().unwrap())
        .collect();
    let ids: Vec<String> = all
        .into_iter()
        .map(|it| {
            let ran = it.wait_with_output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap().trim().to_owned()
        })
        .collect();
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), 6, "{ids:?}");
    assert!(waited.iter().all(|it| distinct.contains(it)), "{waited:?} {ids:?}");
    // As many wait again as were said to, however many processes were told to see to it.
    refilled(&rooms, 3);
    assert_eq!(rooms.fine(&["pool", "drain"]), "3\n");
    assert_eq!(waiting(&rooms), 0);
}

#[test]
fn a_pool_that_was_killed_fills_again_behind_whoever_finds_it_empty() {
    let rooms = Rooms::none();
    rooms.fine(&["pool", "fill", "--size", "2"]);
    let pool = rooms.host.state().join("pool");
    let mut shims = Vec::new();
    for id in rooms.fine(&["pool", "ls", "-q"]).lines() {
        shims.extend(holders(&pool, id));
    }
    assert_eq!(shims.len(), 2);
    for shim in shims {
        rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    }
    within(Duration::from_secs(30), || waiting(&rooms) == 0);
    create(&rooms, &["--name", "shop"]);
    assert!(!was_made_ahead(&rooms, "shop"));
    refilled(&rooms, 2);
}

#[test]
fn nobody_fills_a_pool_beyond_what_the_host_bears() {
    let rooms = Rooms::none();
    rooms.fine(&["pool", "fill", "--size", "1"]);
    // What is kept of the host is no part of what a room is made from.
    rooms.host.user("[reserve]\nmemory = \"1000t\"\n");
    create(&rooms, &["--name", "shop"]);
    assert!(was_made_ahead(&rooms, "shop"));
    // Long enough for somebody to have tried.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(waiting(&rooms), 0);
}

/// The processes that hold the lock of the parked room `id`.
fn holders(pool: &Path, id: &str) -> Vec<Pid> {
    let keys = fs::read_dir(pool).unwrap().map(|it| it.unwrap().path());
    let locks: Vec<_> = keys.map(|it| it.join(id)).collect();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| locks.contains(&it))
    };
    pids.filter(holds).filter_map(Pid::from_raw).collect()
}

/// A shim that is killed anywhere between its beginning and the end of a hand-out.
#[test]
fn a_shim_that_dies_on_the_way_costs_nobody_a_room() {
    let rooms = Rooms::none();
    let mut handed_out = false;
    for at in 1..40 {
        let mut fill = rooms.host.command(["pool", "fill", "--size", "1"]);
        let fill = rooms.host.ended(fill.env("BULKHEAD_CRASH_AT", at.to_string()));
        let name = format!("room-{at}");
        assert_eq!(create(&rooms, &["--name", &name]), name, "{at}: {fill:?}");
        assert_eq!(rooms.fine(&["exec", &name, "--", "echo", "here"]), "here\n", "{at}");
        handed_out = was_made_ahead(&rooms, &name);
        rooms.fine(&["rm", "--force", &name]);
        rooms.fine(&["pool", "drain"]);
        assert_eq!(waiting(&rooms), 0, "{at}");
        if handed_out {
            break;
        }
    }
    assert!(handed_out, "it dies for ever");
    rooms.fine(&["prune"]);
    within(Duration::from_secs(10), || {
        let left = |dir: &str| fs::read_dir(rooms.host.state().join(dir));
        ["pool", "names"].iter().all(|dir| left(dir).is_ok_and(|mut it| it.next().is_none()))
    });
}

#[test]
fn bad_words_about_the_pool_are_told() {
    let rooms = Rooms::none();
    let steps: [&[&str]; 4] = [
        &["pool", "fill"],
        &["pool", "fill", "--size", "0"],
        &["pool", "fill", "--size", "1", "--name", "shop"],
        &["pool", "fill", "--size", "1", "--image", "x", "--pull", "always"],
    ];
    let told = steps.map(|it| format!("$ bulkhead {it:?}\n{}", rooms.bulkhead(it).shown()));
    insta::assert_snapshot!(told.join("\n"));
}
