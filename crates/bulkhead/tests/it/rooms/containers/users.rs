//! The disks of rooms in containers of ordinary users: who can reach them, and who is told why not.

use bulkhead_testbed::{Dockerd, Podman, Rootless, Setup, Whose};

use crate::{
    host::{Ran, SOMEBODY},
    work::Work,
};

/// A room whose disk is kept: from its checkpoint to those that began with it.
const KEPT: &str = r#"
set -e
"$0" create $ON --name shop --no-workspace --persist
"$0" exec shop -- bash -c 'echo kept > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut
    echo c > /tmp/closed; chmod 0 /tmp/closed'
"$0" checkpoint create shop one
"$0" exec shop -- rm /tmp/a
"$0" stop shop
"$0" start shop
"$0" exec shop -- bash -c 'echo /tmp/*; echo again > /tmp/a'
"$0" fork shop
"$0" stop shop-1
"$0" start shop-1
"$0" exec shop-1 -- bash -c 'cat /tmp/a ~/b; echo /tmp/*'
"$0" rm --force shop shop-1
"$0" create $ON --name shop --no-workspace --persist
"$0" checkpoint restore one --force
"$0" exec shop -- bash -c 'cat /tmp/a ~/b; echo /tmp/*'
"$0" rm --force shop
"$0" checkpoint rm one
"#;

const KEPT_SAID: &str = "shop\none\nshop\nshop\n/tmp/closed /tmp/shut\nshop-1\nshop-1\nshop-1\n\
    again\nhome\n/tmp/a /tmp/closed /tmp/shut\nshop\nshop-1\nshop\nshop\nkept\nhome\n\
    /tmp/a /tmp/closed /tmp/shut\nshop\none\n";

/// One whose disk ends with it.
const MEMORY: &str = r#"
set -e
"$0" create $ON --name shop --no-workspace
"$0" exec shop -- bash -c 'echo one > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut
    echo c > /tmp/closed; chmod 0 /tmp/closed'
"$0" checkpoint create shop one || { "$0" rm --force shop; exit 7; }
"$0" exec shop -- bash -c 'echo two > /tmp/a; rm ~/b'
"$0" checkpoint restore one --force
"$0" exec shop -- bash -c 'cat /tmp/a ~/b; echo /tmp/*; rm /tmp/a'
"$0" fork shop -n 2
"$0" exec shop-2 -- bash -c 'cat ~/b; echo /tmp/*'
test "$("$0" exec shop-1 -- cat /etc/machine-id)" != "$("$0" exec shop-2 -- cat /etc/machine-id)"
test "$("$0" exec shop-1 -- uname -n)" != "$("$0" exec shop-2 -- uname -n)"
"$0" rm --force shop shop-1 shop-2
"$0" checkpoint rm one
"#;

const MEMORY_SAID: &str = "shop\none\nshop\none\nhome\n/tmp/a /tmp/closed /tmp/shut\nshop-1\nshop-2\n\
    home\n/tmp/closed /tmp/shut\nshop\nshop-1\nshop-2\none\n";

fn scene(work: &Work, (address, backend): (&str, &str), script: &str) -> Ran {
    let before = format!(
        "export DOCKER_HOST={address} CONTAINER_HOST={address}; ON='--backend {backend}'"
    );
    work.shell(&format!("{before}{script}"))
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn somebody_who_may_talk_to_a_daemon_keeps_disks_and_copies_those() {
    let dockerd = Dockerd::start(Setup::new("tests-of-users-disks")).unwrap();
    dockerd.furnish().unwrap();
    dockerd.open_to_all().unwrap();
    let work = Work::of_ordinary_user();
    let on = (dockerd.address(), "docker");
    let ran = scene(&work, on, KEPT);
    assert_eq!(ran.stdout, KEPT_SAID, "{}", ran.shown());
    // What is in the daemon's memory, nobody but its root could copy.
    let ran = scene(&work, on, MEMORY);
    assert_eq!(ran.code, Some(7), "{}", ran.shown());
    assert!(ran.stderr.contains("only the daemon reaches it"), "{}", ran.shown());
    assert!(ran.stderr.contains("--persist"), "{}", ran.shown());
    assert_eq!(dockerd.docker(&["ps", "-aq"]).unwrap(), "");
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn the_owner_of_a_rootless_docker_copies_and_keeps_disks() {
    let daemon = Rootless::ready(SOMEBODY).unwrap();
    let work = Work::of_ordinary_user();
    for (script, said) in [(KEPT, KEPT_SAID), (MEMORY, MEMORY_SAID)] {
        let ran = scene(&work, (daemon.address(), "docker"), script);
        assert_eq!(ran.stdout, said, "{}", ran.shown());
    }
}

#[test]
#[ignore = "starts Podman's service, as root; test.sh does"]
fn the_owner_of_a_rootless_podman_copies_and_keeps_disks() {
    let podman = Podman::ready(Whose::Users(SOMEBODY), "runc").unwrap();
    let work = Work::of_ordinary_user();
    for (script, said) in [(KEPT, KEPT_SAID), (MEMORY, MEMORY_SAID)] {
        let ran = scene(&work, (podman.address(), "podman"), script);
        assert_eq!(ran.stdout, said, "{}", ran.shown());
    }
}
