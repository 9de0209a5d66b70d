//! The same way out of containers, whoever asks the daemon and whatever runtime it uses.

use std::fs;

use bulkhead_testbed::{Dockerd, Podman, Setup, Whose, find};
use serde_json::Value;

use super::{
    neighbours::{CLIENT, SERVER},
    server,
};
use crate::{
    host::{Host, Ran, SOMEBODY},
    work::Work,
};

/// What is allowed is reached by a proxy and without, and nothing else is.
const SCRIPT: &str = r#"
import os, socket, sys, urllib.error, urllib.request
url = "http://host.bulkhead.internal:" + sys.argv[1]
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(urllib.request.urlopen(url, timeout=20).read())
print(direct.open(url, timeout=20).read())
for opener in [urllib.request, direct]:
    try:
        getattr(opener, "urlopen", getattr(opener, "open", None))("http://evil.example.com", timeout=20)
    except urllib.error.HTTPError as error:
        print(error.code)
    except urllib.error.URLError:
        print("no such name")
for address in ["192.0.2.7", "169.254.169.254", "2001:db8::1"]:
    try:
        reached = socket.create_connection((address, int(sys.argv[1])), 20)
        reached.settimeout(20)
        print("end" if reached.recv(9) == b"" else "reached")
    except OSError:
        print("end")
assert os.environ["KEY"].startswith("sk-ant-api03-") and "CaNaRy" not in os.environ["KEY"]
assert "BEGIN CERTIFICATE" in open(os.environ["SSL_CERT_FILE"]).read()
"#;

const SAID: &str = "b'hello\\n'\nb'hello\\n'\n403\nno such name\nend\nend\nend\n";

/// Has `run` run it, with a line for the command, and looks at what came of it.
fn check(host: &Host, run: impl Fn(&str) -> Ran, options: &str, caught: &str) {
    let port = server();
    fs::write(host.project().join("key"), "sk-ant-api03-CaNaRy0123456789abcdefghij").unwrap();
    fs::write(host.project().join("script.py"), SCRIPT).unwrap();
    let report = host.path().join("report.json");
    let ran = run(&format!(
        "run {options} --allow host.bulkhead.internal:{port} \
         --secret KEY=file:key@api.example.com --report {} -- \
         /usr/bin/python3 -I -S script.py {port}",
        report.display()
    ));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), SAID), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(report["egress"]["caught"], caught);
    let upheld = report["upheld"].as_array().unwrap();
    assert!(upheld.contains(&Value::from("EgressOnlyThroughProxy")), "{upheld:?}");
    let denied = report["denied_hosts"].as_array().unwrap();
    assert!(denied.contains(&Value::from("evil.example.com:80")), "{denied:?}");
}

#[test]
fn containers_have_the_same_way_out() {
    let dockerd = Dockerd::ready(Setup::new("tests-of-ways-out")).unwrap();
    let host = Host::new();
    let by_root = |line: &str| {
        let mut command = host.shell(&format!("exec \"$0\" {line}"));
        host.ended(command.env("DOCKER_HOST", dockerd.address()))
    };
    check(&host, by_root, "--backend docker", "every_address");
    if find("runsc").is_some() {
        check(&host, by_root, "--backend docker --runtime runsc", "names");
    }
    let plan =
        by_root("plan --backend docker --runtime runc --allow example.com -- true").stdout;
    assert!(plan.contains("meets connections to every address"), "{plan}");
}

#[test]
fn a_container_and_a_native_sandbox_are_neighbours() {
    let dockerd = Dockerd::ready(Setup::new("tests-of-ways-out")).unwrap();
    let host = Host::new();
    fs::write(host.project().join("server.py"), SERVER).unwrap();
    fs::write(host.project().join("client.py"), CLIENT).unwrap();
    let scene = r#"
"$0" run --backend docker --network lan --name db -- /usr/bin/python3 -I -S server.py > db.out 2>&1 &
tries=0
until grep -q up db.out; do
    tries=$((tries + 1)); test $tries -lt 600 || { cat db.out; exit 1; }
    sleep 0.1
done
timeout 60 "$0" run --network lan --name web -- python3 -I -S client.py db
"$0" run --backend docker --runtime runsc --network lan --name odd -- true
kill $!; wait
"#;
    let mut command = host.shell(scene);
    let ran = host.ended(command.env("DOCKER_HOST", dockerd.address()));
    let reached = "db tcp hello\ndb big 8388608\ndb proxied hello\ndb udp HELLO\n";
    assert!(ran.stdout.starts_with(reached), "{}", ran.shown());
    if find("runsc").is_some() {
        assert!(ran.stderr.contains("cannot build a private network"), "{}", ran.shown());
    }
}

/// Somebody who may talk to the daemon and is otherwise nobody.
#[test]
fn an_ordinary_user_has_the_same_way_out_of_containers() {
    let dockerd = Dockerd::start(Setup::new("tests-of-users")).unwrap();
    dockerd.furnish().unwrap();
    dockerd.open_to_all().unwrap();
    let work = Work::of_ordinary_user();
    let by_user = |line: &str| {
        work.shell(&format!("export DOCKER_HOST={}; exec \"$0\" {line}", dockerd.address()))
    };
    check(&work.host, by_user, "--backend docker", "names");
    let plan = by_user("plan --backend docker --allow example.com -- true").stdout;
    assert!(plan.contains("meets connections to names; addresses have no route"), "{plan}");
}

/// Somebody without rights whose Podman is theirs, too.
#[test]
fn an_ordinary_user_has_the_same_way_out_of_a_podman_of_their_own() {
    let work = Work::of_ordinary_user();
    let podman = Podman::ready(Whose::Users(SOMEBODY), "runc").unwrap();
    let by_user = |line: &str| {
        work.shell(&format!("export CONTAINER_HOST={}; exec \"$0\" {line}", podman.address()))
    };
    check(&work.host, by_user, "--backend podman", "names");
}
