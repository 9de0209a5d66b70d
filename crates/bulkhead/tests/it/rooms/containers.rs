//! Rooms that are containers: the same verbs, the same words.

mod disks;
mod podman;
mod users;

use std::time::Duration;

use bulkhead_testbed::{Dockerd, Setup};
use rustix::process::{Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::Rooms;
use crate::host::{Ran, within};

/// A daemon of its own, and rooms on it.
struct Site {
    rooms: Rooms,
    dockerd: Dockerd,
}

impl Site {
    /// With the room `shop`.
    fn open(scope: &'static str) -> Self {
        let site = Self::empty(scope);
        site.rooms.host.user("[ceiling]\npids = 200\nmemory = \"1g\"\n");
        let more = ["--memory", "256m", "--pids", "20", "--allow", "one.example.com"];
        site.create("shop", &[&["--no-workspace"], &more[..]].concat());
        site
    }

    /// Without any room.
    fn empty(scope: &'static str) -> Self {
        Self { rooms: Rooms::none(), dockerd: Dockerd::ready(Setup::new(scope)).unwrap() }
    }

    fn create(&self, name: &str, more: &[&str]) {
        let create = ["create", "--backend", "docker", "--name", name];
        let image = ["--image", bulkhead_testbed::IMAGE];
        self.fine(&[&create[..], more, &image].concat());
    }

    fn bulkhead(&self, args: &[&str]) -> Ran {
        let host = &self.rooms.host;
        host.ended(host.command(args).env("DOCKER_HOST", self.dockerd.address()))
    }

    fn fine(&self, args: &[&str]) -> String {
        let ran = self.bulkhead(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    fn inside(&self, script: &str) -> String {
        self.says("shop", script)
    }

    fn says(&self, room: &str, script: &str) -> String {
        self.fine(&["exec", room, "--", "bash", "-c", script])
    }

    fn room(&self) -> Value {
        self.rooms.host.json(&["inspect", "shop"])["room"].clone()
    }

    /// What the daemon says about the only container.
    fn held(&self, form: &str) -> String {
        let containers = self.dockerd.docker(&["ps", "-q"]).unwrap();
        let container = containers.lines().next().unwrap();
        self.dockerd.docker(&["inspect", "--format", form, container]).unwrap()
    }

    fn containers(&self) -> String {
        self.dockerd.docker(&["ps", "-aq"]).unwrap()
    }
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_room_in_a_container_is_changed_as_any_other() {
    let site = Site::open("tests-of-updates");
    let many =
        "for i in {1..30}; do sleep 5 & done 2>/dev/null; set -- $(jobs -p); echo $#; kill $*";
    assert_ne!(site.bulkhead(&["exec", "shop", "--", "bash", "-c", many]).stdout, "30\n");
    site.fine(&["update", "shop", "--pids", "100", "--memory", "512m", "-e", "WORD=heard"]);
    assert_eq!(site.inside(many), "30\n");
    assert_eq!(site.inside("echo $WORD"), "heard\n");
    // What the daemon itself holds, its own processes beside those of the room.
    let form = "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.PidsLimit}}";
    let held = site.held(form);
    let held: Vec<u64> = held.split_whitespace().map(|it| it.parse().unwrap()).collect();
    assert!(held[0] == 512 << 20 && held[1] == 512 << 20, "{held:?}");
    assert!(100 <= held[2] && held[2] < 120, "{held:?}");
    let limits = site.room()["plan"]["limits"].clone();
    assert_eq!((&limits["pids"], &limits["memory"]), (&100.into(), &(512 << 20).into()));
    // Up to the ceiling, and what is refused changes nothing.
    for refused in [["--pids", "201"], ["--memory", "2g"], ["--memory", "1m"]] {
        let ran = site.bulkhead(&["update", "shop", refused[0], refused[1]]);
        assert_eq!(ran.code, Some(125), "{refused:?}: {ran:?}");
    }
    assert_eq!(site.room()["plan"]["limits"], limits);
    site.fine(&["update", "shop", "--allow", "two.example.com", "--deny", "one.example.com"]);
    let id = site.room()["id"].as_str().unwrap().to_owned();
    let verdict = |host: &str| {
        let json = site.bulkhead(&["policy", "check", host, "--sandbox", &id, "--json"]).stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        json["allowed"].as_bool().unwrap()
    };
    assert!(verdict("two.example.com") && !verdict("one.example.com"));
    site.fine(&["rm", "--force", "shop"]);
    assert_eq!(site.containers(), "");
}

/// A program that counts for as long as it goes on.
const COUNT: &str = "while :; do echo $((++n)) > ~/n; sleep 0.01; done";

/// That [`COUNT`] goes on in the room `shop`, whatever it is built by, and that nothing keeps the room
/// from ending while it stands still. `fine` says something to Bulkhead that is done.
fn goes_on_and_ends(rooms: &Rooms, fine: &dyn Fn(&[&str]) -> String) {
    let inside = |script: &str| fine(&["exec", "shop", "--", "bash", "-c", script]);
    let seen: u64 = inside("cat ~/n").trim().parse().unwrap();
    let later: u64 = inside("sleep 1; cat ~/n").trim().parse().unwrap();
    assert!(seen < later, "{seen} {later}");
    // Whoever wants something of a room that stands still has it go on.
    fine(&["pause", "shop"]);
    assert_eq!(inside("echo here"), "here\n");
    // Nothing is left of one that is killed while it stands still.
    fine(&["pause", "shop"]);
    kill_process(rooms.shim("shop"), Signal::KILL).unwrap();
    fine(&["rm", "--force", "shop"]);
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_room_in_a_container_stands_still_and_goes_on() {
    let site = Site::open("tests-of-pauses");
    site.fine(&["exec", "-d", "shop", "--", "bash", "-c", COUNT]);
    // To pause what is paused, and to let go on what goes on, is no mistake.
    for verb in ["pause", "pause"] {
        site.fine(&[verb, "shop"]);
        let listed = site.rooms.host.json(&["ls", "--json"]);
        assert_eq!(listed["rooms"][0]["state"], "paused");
        assert_eq!(site.held("{{.State.Paused}}"), "true\n");
    }
    for verb in ["resume", "resume"] {
        site.fine(&[verb, "shop"]);
        assert_eq!(site.held("{{.State.Paused}}"), "false\n");
    }
    goes_on_and_ends(&site.rooms, &|args| site.fine(args));
    let run = ["run", "--backend", "docker", "--no-workspace", "--image"];
    site.fine(&[&run[..], &[bulkhead_testbed::IMAGE, "--", "true"]].concat());
    assert_eq!(site.containers(), "");
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_room_whose_daemon_goes_while_it_stands_still_ends_in_words() {
    let mut site = Site::open("tests-of-crashes");
    site.fine(&["pause", "shop"]);
    let shim = site.rooms.shim("shop");
    site.dockerd.crash().unwrap();
    within(Duration::from_secs(20), || test_kill_process(shim).is_err());
    // Its shim has said how it ended: it is no shim that went away without a word.
    let ran = site.bulkhead(&["exec", "shop", "--", "true"]);
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(!ran.stderr.contains("its shim is gone"), "{}", ran.stderr);
    site.fine(&["rm", "shop"]);
    site.dockerd.restart().unwrap();
    let run = ["run", "--backend", "docker", "--no-workspace", "--image"];
    site.fine(&[&run[..], &[bulkhead_testbed::IMAGE, "--", "true"]].concat());
    assert_eq!(site.containers(), "");
}
