//! Rooms as a user meets them.

mod at_once;
mod busy;
mod checkpoints;
mod containers;
mod copies;
mod deaths;
mod gone;
mod many;
mod pool;
mod strangers;
mod unbuilt;
mod update;

use std::{path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, Ran, hear, processes_with, within};

/// A host whose rooms end with it.
pub(crate) struct Rooms {
    pub(crate) host: Host,
}

impl Rooms {
    /// Without any.
    pub(crate) fn none() -> Self {
        Self { host: Host::new() }
    }

    /// Without any: of whoever runs the tests, and of an ordinary user.
    pub(crate) fn of_both() -> [Self; 2] {
        [Host::new(), Host::of_ordinary_user()].map(|host| Self { host })
    }

    /// With a room of this name.
    pub(crate) fn with(name: &str) -> Self {
        let rooms = Self { host: Host::new() };
        rooms.fine(&["create", "--name", name]);
        rooms
    }

    pub(crate) fn bulkhead(&self, args: &[&str]) -> Ran {
        self.host.bulkhead(args)
    }

    /// What a command says that must succeed.
    pub(crate) fn fine(&self, args: &[&str]) -> String {
        let ran = self.bulkhead(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// What a script says in the room `shop`.
    pub(crate) fn inside(&self, script: &str) -> String {
        self.fine(&["exec", "shop", "--", "sh", "-c", script])
    }

    /// The process that holds a room.
    fn shim(&self, name: &str) -> Pid {
        let shown = self.host.json(&["inspect", name]);
        let id = shown["room"]["shim"].as_i64().unwrap();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        let names = self.bulkhead(&["ls", "-q"]).stdout;
        for name in names.lines() {
            self.bulkhead(&["kill", name]);
        }
        self.bulkhead(&["pool", "drain"]);
    }
}

#[test]
fn a_room_from_its_first_day_to_its_last() {
    let rooms = Rooms::with("shop");
    let mut told = vec![];
    let steps: [&[&str]; 12] = [
        &["exec", "shop", "--", "sh", "-c", "echo out; echo err >&2; exit 3"],
        &["exec", "-d", "--tag", "server", "shop", "--", "sh", "-c", "echo up; sleep 60"],
        &["exec", "shop", "--", "nowhere"],
        &["pause", "shop"],
        &["resume", "shop"],
        &["logs", "--program", "server", "shop"],
        &["logs", "--program", "nobody", "shop"],
        &["rm", "shop"],
        &["stop", "-t", "1s", "shop"],
        &["exec", "shop", "--", "true"],
        &["prune", "--dry-run"],
        &["rm", "shop"],
    ];
    for step in steps {
        told.push(format!("$ bulkhead {}\n{}", step.join(" "), rooms.bulkhead(step).shown()));
    }
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!(rooms.fine(&["ls", "-a", "-q"]), "");
}

#[test]
fn names_that_lead_nowhere_or_to_many_are_told() {
    let rooms = Rooms::with("shop-one");
    rooms.fine(&["create", "--name", "shop-two"]);
    let mut told = vec![];
    let steps: [&[&str]; 8] = [
        &["exec", "shop", "--", "true"],
        &["exec", "absent", "--", "true"],
        &["inspect", "absent"],
        &["stop", "ab\nsent"],
        &["cp", "absent:/a", "b"],
        &["port", "absent", "80"],
        &["create", "--name", "shop-one"],
        &["create", "--name", "a/b"],
    ];
    for step in steps {
        told.push(format!("$ bulkhead {step:?}\n{}", rooms.bulkhead(step).shown()));
    }
    insta::assert_snapshot!(told.join("\n"));
    // The beginning of one name is enough if no other has it.
    assert_eq!(rooms.fine(&["exec", "shop-o", "--", "echo", "here"]), "here\n");
}

#[test]
fn what_rooms_use_is_told_while_they_live() {
    let rooms = Rooms::with("shop");
    rooms.fine(&[
        "exec",
        "-d",
        "shop",
        "--",
        "sh",
        "-c",
        "head -c 32m /dev/zero > /tmp/big; sleep 60",
    ]);
    within(Duration::from_secs(10), || {
        rooms.inside("stat -c %s /tmp/big 2>/dev/null || echo 0") == "33554432\n"
    });
    let stats = rooms.host.json(&["stats", "--json", "shop"]);
    let stats = &stats["rooms"][0]["stats"];
    assert!(32 << 20 < stats["memory"].as_u64().unwrap(), "{stats}");
    assert!(stats["memory"].as_u64() <= stats["memory_peak"].as_u64(), "{stats}");
    assert!(rooms.fine(&["stats"]).contains("shop"));
}

#[test]
fn two_commands_on_one_room_do_not_trouble_each_other() {
    let rooms = Rooms::with("shop");
    let run = |word: &str| {
        let script = format!("for i in 1 2 3 4 5; do echo {word}; sleep 0.02; done");
        rooms.host.command(["exec", "shop", "--", "sh", "-c", &script]).spawn().unwrap()
    };
    let both = [run("left"), run("right")];
    let said = both.map(|it| it.wait_with_output().unwrap().stdout);
    let said = said.map(|it| String::from_utf8(it).unwrap());
    assert_eq!(said, ["left\n".repeat(5), "right\n".repeat(5)]);
}

#[test]
fn a_killed_shim_takes_its_room_along_and_the_next_command_says_so() {
    let rooms = Rooms::with("shop");
    let mark = format!("mark-{}-shim", std::process::id());
    let script =
        format!("trap '' HUP TERM; setsid sh -c ': {mark}; sleep 60; :' & sleep 60; :");
    rooms.fine(&["exec", "-d", "shop", "--", "sh", "-c", &script]);
    within(Duration::from_secs(10), || !processes_with(&mark).is_empty());
    kill_process(rooms.shim("shop"), Signal::KILL).unwrap();
    within(Duration::from_secs(3), || processes_with(&mark).is_empty());
    let next = rooms.bulkhead(&["exec", "shop", "--", "true"]);
    insta::assert_snapshot!(next.shown());
    rooms.fine(&["rm", "shop"]);
    // The name is free again, and what was left is swept with the next one.
    rooms.fine(&["create", "--name", "shop"]);
    rooms.fine(&["rm", "--force", "shop"]);
    assert_eq!(groups_of("shop"), 0);
    assert_eq!(rooms.fine(&["ls", "-a", "-q"]), "");
}

/// Control groups of our own making that name `room`.
fn groups_of(room: &str) -> usize {
    fn count(dir: &Path, room: &str) -> usize {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
        dirs.map(|it| {
            let own = it.file_name().to_string_lossy().starts_with(room);
            usize::from(own) + count(&it.path(), room)
        })
        .sum()
    }
    count(Path::new("/sys/fs/cgroup"), room)
}

#[test]
fn a_port_of_a_room_is_on_loopback_until_interrupted() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let rooms = Rooms::with("shop");
    let server = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nprint('up', flush=True)\n\
                  while True:\n  c, _ = s.accept()\n  c.sendall(b'got ' + c.recv(99)); c.close()";
    rooms.fine(&["exec", "-d", "--tag", "server", "shop", "--", "python3", "-c", server]);
    within(Duration::from_secs(20), || {
        rooms.fine(&["logs", "--program", "server", "shop"]) == "up\n"
    });
    let mut child = rooms.host.command(["port", "shop", "8000:0"]).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    for word in ["first", "second"] {
        let mut stream = std::net::TcpStream::connect(address.trim()).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, format!("got {word}"));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(std::net::TcpStream::connect(address.trim()).is_err());
    let ran = rooms.bulkhead(&["port", "shop", "80x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_run_that_is_kept_becomes_a_room_to_come_back_to() {
    let rooms = Rooms { host: Host::new() };
    let script = "echo once >> /tmp/count; wc -l < /tmp/count; exit 3";
    let run = ["run", "--name", "shop", "--keep", "--", "sh", "-c", script];
    let ran = rooms.bulkhead(&run);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "1\n"), "{ran:?}");
    let ran = rooms.bulkhead(&run);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "2\n"), "{ran:?}");

    // One that still runs is joined.
    let script = "echo ready; until test -e /tmp/go; do sleep 0.02; done; echo gone; exit 4";
    let again = ["run", "--name", "shop", "--keep", "--", "sh", "-c", script];
    let mut first = rooms.host.command(again).spawn().unwrap();
    hear(&mut first, "ready");
    kill_process(Pid::from_child(&first), Signal::KILL).unwrap();
    first.wait().unwrap();
    let mut second = rooms.host.command(again).spawn().unwrap();
    hear(&mut second, "ready");
    rooms.inside("touch /tmp/go");
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "\ngone\n");

    let nameless = rooms.bulkhead(&["run", "--keep", "--", "true"]);
    assert_eq!(nameless.code, Some(2), "{nameless:?}");
}

#[test]
fn a_program_is_known_by_its_process_inside() {
    let rooms = Rooms::with("shop");
    rooms.fine(&["exec", "-d", "--tag", "it", "shop", "--", "sh", "-c", "echo $$; sleep 60"]);
    let logs = ["logs", "--program", "it", "shop"];
    within(Duration::from_secs(10), || !rooms.fine(&logs).is_empty());
    let shown = rooms.host.json(&["inspect", "shop"]);
    let pid = shown["programs"][0]["pid"].as_u64().unwrap();
    assert_eq!(rooms.fine(&logs), format!("{pid}\n"));
    assert_eq!(rooms.inside(&format!("kill -0 {pid} && echo alive")), "alive\n");
}
