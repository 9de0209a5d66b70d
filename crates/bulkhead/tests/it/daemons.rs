//! Container daemons as a user meets them: found, missing, closed, and what is said about each.
//!
//! The daemon here is a socket that answers two questions; what real ones do is tried in
//! `bulkhead-backends`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread,
};

use crate::host::{Host, Ran};

const VERSION: &str = r#"{"Version": "29.5.1", "ApiVersion": "1.53", "Components": [
    {"Name": "Engine", "Version": "29.5.1"}, {"Name": "runc", "Version": "1.3.3"}]}"#;
const INFO: &str = r#"{"Driver": "overlay2", "DockerRootDir": "/var/lib/docker",
    "MemoryLimit": true, "SwapLimit": false, "PidsLimit": true, "CpuCfsPeriod": true,
    "CpuCfsQuota": true, "CgroupDriver": "systemd", "CgroupVersion": "2",
    "KernelVersion": "6.6.0-linuxkit", "OperatingSystem": "Docker Desktop",
    "Runtimes": {"runc": {"path": "runc"}, "runsc": {"path": "/usr/local/bin/runsc"}},
    "DefaultRuntime": "runc", "SecurityOptions": ["name=seccomp,profile=default"],
    "Warnings": ["WARNING: No swap limit support"]}"#;

/// Listens like a daemon until the test ends.
fn daemon(host: &Host) -> PathBuf {
    let path = host.path().join("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(|it| drop(answer(&it))));
    path
}

fn answer(stream: &UnixStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let asked = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let body = if asked.contains("/info") { INFO } else { VERSION };
    let length = body.len();
    write!(
        &*stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

fn named(path: &Path) -> String {
    format!("unix://{}", path.display())
}

/// What the command says with `DOCKER_HOST` set.
fn with_docker(host: &Host, docker: &str, args: &[&str]) -> Ran {
    host.ended(host.command(args).env("DOCKER_HOST", docker))
}

#[test]
fn doctor_shows_what_a_daemon_is_and_lacks() {
    let host = Host::new();
    let docker = named(&daemon(&host));
    let ran = with_docker(&host, &docker, &["doctor"]);
    let text = ran.shown();
    let about = text.split("\nbackend docker").nth(1).unwrap();
    insta::assert_snapshot!(about.split("\nbackend podman").next().unwrap());
    let ran = with_docker(&host, &docker, &["doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let found = &value["backends"][1];
    assert_eq!(found["daemon"]["holds"], serde_json::json!(["memory", "pids", "cpu"]));
    assert_eq!(found["daemon"]["machine"], "other");
    assert_eq!(found["cautions"].as_array().unwrap().len(), 2, "{found:#}");
}

#[test]
fn a_daemon_that_is_not_there_is_named_with_what_to_type() {
    let host = Host::new();
    let dead = host.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let dead = named(&dead);
    let cases: [(&str, &[&str]); 6] = [
        (&dead, &["--backend", "docker"]),
        ("ssh://build@example.org", &["--sandbox", "docker"]),
        ("tcp:/oops", &["--backend", "docker"]),
        (&dead, &["--runtime", "runsc"]),
        (&dead, &["--backend", "native", "--runtime", "runsc"]),
        (&dead, &["--backend", "none", "--runtime", "runsc"]),
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|(docker, flags)| {
            let args = [&["run"], *flags, &["--", "touch", "ran"]].concat();
            let ran = with_docker(&host, docker, &args);
            assert_eq!(ran.code, Some(125), "{ran:?}");
            format!("{}\n{}", flags.join(" "), ran.shown())
        })
        .collect();
    assert!(!host.project().join("ran").exists());
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_runtime_that_the_daemon_lacks_is_refused_with_those_it_has() {
    let host = Host::new();
    let docker = named(&daemon(&host));
    let ran = with_docker(&host, &docker, &["run", "--runtime", "kata", "--", "true"]);
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_limit_that_the_daemon_does_not_hold_is_refused() {
    let host = Host::new();
    let docker = named(&daemon(&host));
    let args = ["run", "--backend", "docker", "--memory", "64m", "--", "true"];
    let ran = with_docker(&host, &docker, &args);
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_socket_that_is_closed_to_this_user_says_how_to_get_in() {
    let host = Host::new();
    let socket = daemon(&host);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let docker = named(&socket);
    let root = rustix::process::getuid().is_root();
    let ran = if root {
        // Whom the file's permissions mean: not root.
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(host.path(), all).unwrap();
        let mut nobody = host.program("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        nobody.arg(env!("CARGO_BIN_EXE_bulkhead"));
        nobody.args(["doctor"]).env("DOCKER_HOST", &docker);
        host.ended(&mut nobody)
    } else {
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).unwrap();
        with_docker(&host, &docker, &["doctor"])
    };
    assert!(ran.stdout.contains("does not let this user in\n"), "{ran:?}");
    assert!(ran.stdout.contains("sudo usermod -aG docker $USER"), "{ran:?}");
}

#[test]
fn native_does_not_look_for_daemons() {
    let host = Host::new();
    // Whoever knocks here waits for ever.
    let path = host.path().join("silent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let ran = with_docker(&host, &named(&path), &["run", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_project_may_choose_a_daemon_but_not_its_runtime() {
    let host = Host::new();
    let docker = named(&daemon(&host));
    host.project_file("backend = 'docker'\nruntime = 'runc'");
    let ran = with_docker(&host, &docker, &["run", "--", "true"]);
    assert!(ran.stderr.contains("runtime `runc`"), "{ran:?}");
    assert!(!ran.stderr.contains("backend `docker`"), "{ran:?}");
}
