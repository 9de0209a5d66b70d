//! Rooms in containers of Podman, which takes the words of Docker: that they do what they say.

use bulkhead_testbed::{Podman, Whose};
use serde_json::Value;

use super::{COUNT, goes_on_and_ends};
use crate::{
    host::{Host, Ran, SOMEBODY},
    rooms::Rooms,
};

/// A service of its own, and rooms on it.
struct Site {
    rooms: Rooms,
    podman: Podman,
}

impl Site {
    fn open(whose: Whose) -> Self {
        let host = match whose {
            Whose::Roots => Host::new(),
            Whose::Users(_) => Host::of_ordinary_user(),
        };
        let podman = Podman::ready(whose, "runc").unwrap();
        Self { rooms: Rooms { host }, podman }
    }

    /// With the room `shop`, made with these flags too.
    fn with_room(whose: Whose, flags: &[&str]) -> Self {
        let site = Self::open(whose);
        let create = ["create", "--backend", "podman", "--name", "shop", "--no-workspace"];
        site.fine(&[&create[..], &["--image", bulkhead_testbed::IMAGE], flags].concat());
        site
    }

    fn bulkhead(&self, args: &[&str]) -> Ran {
        let host = &self.rooms.host;
        host.ended(host.command(args).env("CONTAINER_HOST", self.podman.address()))
    }

    fn fine(&self, args: &[&str]) -> String {
        let ran = self.bulkhead(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    fn inside(&self, script: &str) -> String {
        self.fine(&["exec", "shop", "--", "bash", "-c", script])
    }

    fn state(&self) -> Value {
        self.rooms.host.json(&["ls", "--json"])["rooms"][0]["state"].clone()
    }

    /// What the service says about the only container.
    fn held(&self, form: &str) -> String {
        let containers = self.podman.docker(&["ps", "-aq"]).unwrap();
        let container = containers.lines().next().unwrap();
        self.podman.docker(&["inspect", "--format", form, container]).unwrap()
    }

    fn leaves_nothing(&self) {
        let run = ["run", "--backend", "podman", "--no-workspace", "--image"];
        self.fine(&[&run[..], &[bulkhead_testbed::IMAGE, "--", "true"]].concat());
        assert_eq!(self.podman.docker(&["ps", "-aq"]).unwrap(), "");
    }
}

#[test]
#[ignore = "starts a Podman of its own, as root; test.sh does"]
fn a_room_of_podman_stands_still_and_goes_on() {
    let site = Site::with_room(Whose::Roots, &[]);
    site.fine(&["exec", "-d", "shop", "--", "bash", "-c", COUNT]);
    for verb in ["pause", "pause"] {
        site.fine(&[verb, "shop"]);
        assert_eq!(site.state(), "paused");
        assert_eq!(site.held("{{.State.Status}}"), "paused\n");
    }
    for verb in ["resume", "resume"] {
        site.fine(&[verb, "shop"]);
        assert_eq!(site.held("{{.State.Status}}"), "running\n");
    }
    goes_on_and_ends(&site.rooms, &|args| site.fine(args));
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Podman of its own, as root; test.sh does"]
fn a_room_of_podman_is_changed_as_any_other() {
    let limits = ["--memory", "256m", "--pids", "20", "--allow", "one.example.com"];
    let site = Site::with_room(Whose::Roots, &limits);
    let many =
        "for i in {1..30}; do sleep 5 & done 2>/dev/null; set -- $(jobs -p); echo $#; kill $*";
    let few = site.bulkhead(&["exec", "shop", "--", "bash", "-c", many]);
    assert_ne!(few.stdout, "30\n", "{few:?}");
    site.fine(&["update", "shop", "--pids", "100", "--memory", "512m", "-e", "WORD=heard"]);
    assert_eq!(site.inside(many), "30\n");
    assert_eq!(site.inside("echo $WORD"), "heard\n");
    let hog = "x = bytearray(400 << 20); print(len(x))";
    let hog = ["exec", "shop", "--", "python3", "-c", hog];
    assert_eq!(site.fine(&hog), format!("{}\n", 400 << 20));
    site.fine(&["update", "shop", "--memory", "128m"]);
    assert_ne!(site.bulkhead(&hog).code, Some(0));
    site.fine(&["update", "shop", "--allow", "two.example.com", "--deny", "one.example.com"]);
    let id = site.rooms.host.json(&["inspect", "shop"])["room"]["id"].clone();
    let verdict = |host: &str| {
        let check = ["policy", "check", host, "--sandbox", id.as_str().unwrap(), "--json"];
        let json: Value = serde_json::from_str(&site.bulkhead(&check).stdout).unwrap();
        json["allowed"].as_bool().unwrap()
    };
    assert!(verdict("two.example.com") && !verdict("one.example.com"));
    site.fine(&["rm", "--force", "shop"]);
    site.leaves_nothing();
}

/// Whether an ordinary user's containers can be frozen, and limited, depends on the host. Where they
/// cannot, that is said, and the room goes on as it was.
#[test]
#[ignore = "starts a Podman of an ordinary user, as root; test.sh does"]
fn a_room_of_a_users_podman_does_it_or_says_why_not() {
    let site = Site::with_room(Whose::Users(SOMEBODY), &[]);
    for verb in ["pause", "resume"] {
        let ran = site.bulkhead(&[verb, "shop"]);
        match ran.code {
            Some(0) => assert_eq!(ran.stdout, "shop\n"),
            _ => assert!(
                ran.stderr.contains("error: ") && ran.stderr.contains("cause: "),
                "{ran:?}"
            ),
        }
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    }
    assert_eq!(site.state(), "running");
    site.fine(&["update", "shop", "-e", "WORD=heard"]);
    assert_eq!(site.inside("echo $WORD"), "heard\n");
    let limited = site.bulkhead(&["update", "shop", "--memory", "256m"]);
    assert!(limited.code == Some(0) || limited.stderr.contains("error: "), "{limited:?}");
    assert_eq!(site.inside("echo here"), "here\n");
    site.fine(&["rm", "--force", "shop"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts Podman, as root; test.sh does"]
fn the_disk_of_a_room_of_podman_is_copied_and_kept() {
    let site = Site::with_room(Whose::Roots, &["--persist"]);
    site.inside("echo one > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut");
    site.fine(&["exec", "-d", "shop", "--", "bash", "-c", COUNT]);
    site.fine(&["checkpoint", "create", "shop", "one"]);
    site.inside("echo two > /tmp/a");
    site.fine(&["stop", "shop"]);
    site.fine(&["start", "shop"]);
    assert_eq!(site.inside("cat /tmp/a ~/b; echo /tmp/*"), "two\nhome\n/tmp/a /tmp/shut\n");
    site.fine(&["checkpoint", "restore", "one", "--force"]);
    assert_eq!(site.inside("cat /tmp/a ~/b; echo /tmp/*"), "one\nhome\n/tmp/a /tmp/shut\n");
    // One whose disk ends with it, too.
    site.fine(&["checkpoint", "restore", "one", "--name", "beside"]);
    let ids =
        ["shop", "beside"].map(|it| site.fine(&["exec", it, "--", "cat", "/etc/machine-id"]));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(site.fine(&["fork", "beside", "-n", "2"]), "beside-1\nbeside-2\n");
    assert_eq!(site.fine(&["exec", "beside-2", "--", "cat", "/tmp/a"]), "one\n");
    site.fine(&["rm", "--force", "shop", "beside", "beside-1", "beside-2"]);
    site.fine(&["checkpoint", "rm", "one"]);
    site.leaves_nothing();
}
