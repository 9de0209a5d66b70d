//! What each call does.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::Server;
use crate::host::{Host, within};

#[test]
fn a_sandbox_lives_its_life_over_http() {
    let server = Server::start();
    let wanted = json!({
        "name": "shop", "labels": { "team": "a", "stage": "test" },
        "env": { "GREETING": "hello" }, "lifetime": { "ttl_seconds": 600 },
    });
    let made = server.post("/v1/sandboxes", &wanted);
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["name"], &made["state"]), (&json!("shop"), &json!("running")));
    assert!(made["expires_at"].is_string() && made["upheld"].as_array().unwrap().len() > 3);
    let path = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());

    assert_eq!(server.post("/v1/sandboxes", &wanted).problem(), (409, "name-taken".into()));
    assert_eq!(server.get("/v1/sandboxes/shop").json()["id"], made["id"]);
    assert_eq!(server.shell(&path, "echo $GREETING")["stdout"], "hello\n");

    let longer = server.json("PATCH", &path, &json!({ "ttl_seconds": 1200 })).json();
    assert!(made["expires_at"].as_str() < longer["expires_at"].as_str());
    let kept = server.post(&format!("{path}/keep-alive"), &json!({ "ttl_seconds": 1 })).json();
    assert!(made["expires_at"].as_str() < kept["expires_at"].as_str());

    let paused = server.with(&format!("POST {path}/pause"), &[], &[]);
    assert_eq!(paused.json()["state"], "paused");
    let resumed = server.with(&format!("POST {path}/resume"), &[], &[]);
    assert_eq!(resumed.json()["state"], "running");
    assert!(server.get(&format!("{path}/stats")).json()["wall_seconds"].as_f64() > Some(0.0));

    let stopped = server.with(&format!("POST {path}/stop"), &[], &[]).json();
    assert_eq!(
        (&stopped["state"], &stopped["ended"]["why"]),
        (&json!("ended"), &json!("stopped"))
    );
    let exec = server.post(&format!("{path}/exec"), &json!({ "argv": ["true"] }));
    assert_eq!(exec.problem(), (409, "sandbox-ended".into()));
    assert_eq!(server.with(&format!("DELETE {path}"), &[], &[]).status, 204);
    assert_eq!(server.get(&path).problem(), (404, "sandbox-not-found".into()));
    assert_eq!(server.host.bulkhead(["ls", "--all", "-q"]).stdout, "");
}

#[test]
fn lists_come_in_pages_and_by_label() {
    let server = Server::start();
    for (name, stage) in [("a", "one"), ("b", "two"), ("c", "two")] {
        server.create(&json!({ "name": name, "labels": { "stage": stage } }));
    }
    let names = |path: &str| {
        let page = server.get(path).json();
        let names = page["sandboxes"].as_array().unwrap().iter();
        let mut names: Vec<_> =
            names.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        (names.join(","), page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(names("/v1/sandboxes?labels=stage%3Dtwo"), ("b,c".to_owned(), None));
    assert_eq!(names("/v1/sandboxes?labels=stage%21%3Dtwo").0, "a");
    assert_eq!(names("/v1/sandboxes?labels=other").0, "");
    let (first, cursor) = names("/v1/sandboxes?limit=2");
    let (second, end) = names(&format!("/v1/sandboxes?limit=2&cursor={}", cursor.unwrap()));
    let mut all: Vec<_> = first.split(',').chain(second.split(',')).collect();
    all.sort_unstable();
    assert_eq!((all.join(",").as_str(), end), ("a,b,c", None));
    for path in ["/v1/sandboxes?limit=0", "/v1/sandboxes?cursor=x", "/v1/sandboxes?color=red"] {
        assert_eq!(server.get(path).problem(), (400, "malformed".into()), "{path}");
    }
}

#[test]
fn a_program_is_run_to_its_end_in_one_call() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let exec = |body: Value| server.post(&format!("{path}/exec"), &body).json();
    let ran = exec(json!({
        "argv": ["/bin/sh", "-c", "cat; pwd; echo oh >&2; exit 3"],
        "cwd": "/tmp", "env": { "A": "b" }, "stdin": "in\n",
    }));
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["exit_code"], &ran["ending"]["kind"]),
        (&json!("in\n/tmp\n"), &json!("oh\n"), &json!(3), &json!("exited"))
    );
    let late = exec(json!({ "command": "sleep 60", "timeout_seconds": 0.2 }));
    assert_eq!(
        (&late["exit_code"], &late["ending"]["kind"]),
        (&json!(124), &json!("timed_out"))
    );
    let much = exec(json!({ "command": "seq 100000", "keep_bytes": 20 }));
    assert_eq!(
        (&much["truncated"], &much["stdout"]),
        (&json!(true), &json!("1\n2\n3\n4\n5\n99\n100000\n"))
    );
    let bytes = exec(json!({ "command": "printf '\\377'", "encoding": "base64" }));
    assert_eq!(bytes["stdout"], "/w==");
    for (body, refused) in [
        (json!({ "argv": ["no-such-program"] }), (422, "not-started")),
        (json!({ "argv": ["true"], "cwd": "/none" }), (422, "not-started")),
        (json!({ "argv": ["true"], "command": "true" }), (400, "malformed")),
        (json!({}), (400, "malformed")),
        (json!({ "command": "true", "shell": "zsh" }), (400, "malformed")),
    ] {
        let answer = server.post(&format!("{path}/exec"), &body).problem();
        assert_eq!(answer, (refused.0, refused.1.to_owned()), "{body}");
    }
}

#[test]
fn a_program_is_started_fed_watched_and_signalled() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let line = "trap 'echo bye; exit 7' TERM; read a; echo got $a; sleep 1000 & wait";
    let started = server.post(
        &format!("{path}/programs"),
        &json!({ "command": line, "stdin": true, "tag": "mine" }),
    );
    assert_eq!(started.status, 201);
    let id = started.json()["id"].as_u64().unwrap();
    let program = format!("{path}/programs/{id}");
    let bytes = ["Content-Type: application/octet-stream"];
    assert_eq!(server.with(&format!("POST {program}/stdin"), &bytes, b"x\n").status, 204);
    within(Duration::from_secs(20), || {
        server.get(&format!("{program}/output")).json()["stdout"] == "got x\n"
    });
    let shown = server.get(&program).json();
    assert_eq!((&shown["running"], &shown["tag"]), (&json!(true), &json!("mine")));
    let signal = server.post(&format!("{program}/signal"), &json!({ "signal": "SIGTERM" }));
    assert_eq!(signal.status, 204);
    let ended = server.get(&format!("{program}/wait?timeout_seconds=30")).json();
    assert_eq!((&ended["running"], &ended["ending"]["exit_code"]), (&json!(false), &json!(7)));

    let told =
        server.with(&format!("GET {program}/output"), &["Accept: text/event-stream"], &[]);
    let told = String::from_utf8(told.body).unwrap();
    assert!(told.contains("event: stdout\ndata: {\"data\":\"Z290IHgK\"}"), "{told}");
    assert!(told.contains("event: ended"), "{told}");
    // Who has seen the first six bytes gets only the rest.
    let again = ["Accept: text/event-stream", "Last-Event-ID: 6"];
    let rest = server.with(&format!("GET {program}/output"), &again, &[]);
    let rest = String::from_utf8(rest.body).unwrap();
    assert!(!rest.contains("Z290") && rest.contains("YnllCg=="), "{rest}");

    let logs = server.get(&format!("{path}/logs?program={id}")).json();
    assert_eq!(logs["entries"][0]["stdout"], "got x\nbye\n");
    for (path, refused) in [
        (format!("{path}/programs/99"), (404, "program-not-found")),
        (format!("{path}/programs/x"), (400, "malformed")),
    ] {
        let answer = server.get(&path);
        assert_eq!(answer.status, refused.0, "{}", answer.head);
    }
}

#[test]
fn what_cannot_be_read_to_its_end_is_broken_off() {
    let server = Server::start();
    let path = server.create(&json!({}));
    // The kernel lets it be opened, and has nothing at its beginning.
    let sleeper = server.shell(&path, "sleep 1000 > /dev/null 2>&1 & echo $!");
    let sleeper = sleeper["stdout"].as_str().unwrap().trim().to_owned();
    let key = format!("Authorization: Bearer {}", server.key);
    for call in ["files", "tree"] {
        let url = format!("http://{}{path}/{call}?path=/proc/{sleeper}/mem", server.address);
        let mut curl = server.host.program("curl");
        let ran = server.host.ended(curl.args(["-sS", "-o", "/dev/null", "-H", &key, &url]));
        // What curl says of a transfer without its end, and of one that broke before it began.
        assert!(matches!(ran.code, Some(18 | 52)), "{call}: {:?} {}", ran.code, ran.stderr);
    }
}

#[test]
fn files_and_trees_go_in_and_out() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let bytes = ["Content-Type: application/octet-stream"];
    let put = |to: &str, body: &[u8]| {
        server.with(&format!("PUT {path}/files?path={to}"), &bytes, body)
    };
    let big = vec![7_u8; 3 << 20];
    assert_eq!(put("a/b/big", &big).json()["size"], 3 << 20);
    assert_eq!(server.get(&format!("{path}/files?path=a/b/big")).body, big);
    assert_eq!(put("%2Ftmp%2Fn%C3%B6", b"0123456789").json()["path"], "/tmp/nö");
    let part = server.with(
        &format!("GET {path}/files?path=%2Ftmp%2Fn%C3%B6"),
        &["Range: bytes=2-4"],
        &[],
    );
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    let behind = server.with(
        &format!("GET {path}/files?path=%2Ftmp%2Fn%C3%B6"),
        &["Range: bytes=20-"],
        &[],
    );
    assert_eq!(behind.problem(), (416, "range-not-satisfiable".into()));
    let new = server.with(&format!("PUT {path}/files?path=a/b/big&onto=new"), &bytes, b"x");
    assert_eq!(new.problem(), (409, "file-exists".into()));

    let made = server.post(&format!("{path}/files/directory"), &json!({ "path": "d/e" }));
    assert_eq!((made.status, &made.json()["kind"]), (201, &json!("directory")));
    let moved = server
        .post(&format!("{path}/files/move"), &json!({ "from": "a/b/big", "to": "d/e/f" }));
    assert_eq!(moved.status, 200);
    let listed = server.get(&format!("{path}/files/list?path=d&depth=2")).json();
    let names = listed["entries"].as_array().unwrap().iter().map(|it| it["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["e", "f"]);

    server.shell(&path, "ln -s e/f d/link; chmod 700 d/e; rm d/e/f; echo text > d/e/f");
    let tree = server.get(&format!("{path}/tree?path=d"));
    assert!(tree.head.contains("application/x-tar"), "{}", tree.head);
    let form = ["Content-Type: application/x-tar"];
    let put = server.with(&format!("PUT {path}/tree?path=copy"), &form, &tree.body);
    assert_eq!(put.status, 204, "{}", String::from_utf8_lossy(&put.body));
    let look = "cat copy/link; stat -c %a copy/e; readlink copy/link";
    assert_eq!(server.shell(&path, look)["stdout"], "text\n700\ne/f\n");

    let mut evil = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..7].copy_from_slice(b"../evil");
    header.set_size(0);
    header.set_cksum();
    evil.append(&header, &[][..]).unwrap();
    let evil = evil.into_inner().unwrap();
    let refused = server.with(&format!("PUT {path}/tree?path=copy"), &form, &evil);
    assert_eq!(refused.problem(), (400, "malformed".into()));

    let gone = server.with(&format!("DELETE {path}/files?path=d"), &[], &[]);
    assert!(gone.status == 409 || gone.status == 403, "{}", gone.head);
    let gone = server.with(&format!("DELETE {path}/files?path=d&recursive=true"), &[], &[]);
    assert_eq!(gone.status, 204);
    let stat = server.get(&format!("{path}/files/stat?path=d"));
    assert_eq!(stat.problem(), (404, "file-not-found".into()));
}

/// Opens a stream of events and reads until a line begins with `until`.
fn listen(server: &Server, path: &str, until: &str, meanwhile: impl FnOnce()) -> Vec<String> {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let (host, key) = (&server.address, &server.key);
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("200"));
    meanwhile();
    let mut seen = Vec::new();
    for line in lines {
        seen.push(line);
        if seen.last().unwrap().starts_with(until) {
            return seen;
        }
    }
    panic!("the stream ended: {seen:?}");
}

#[test]
fn changes_and_events_are_told_as_they_happen() {
    let server = Server::start();
    let path = server.create(&json!({ "name": "told" }));
    let watch = format!("{path}/files/watch?path=%2Ftmp");
    let seen = listen(&server, &watch, "data: {\"change\":\"made\"", || {
        server.shell(&path, "touch /tmp/new");
    });
    assert!(seen.iter().any(|it| it == "event: changed"), "{seen:?}");

    let id = path.rsplit('/').next().unwrap();
    let events = format!("/v1/events?sandbox={id}");
    let seen = listen(&server, &events, "event: event", || {
        server.shell(&path, "true");
    });
    assert!(seen.iter().any(|it| it.starts_with("id: ")), "{seen:?}");
    let page = server.get(&format!("{events}&limit=1000")).json();
    let kinds: Vec<&str> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["event"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"created") && kinds.contains(&"ended"), "{kinds:?}");
}

#[test]
fn servers_inside_are_reached_by_their_port_without_the_key() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let line = "cd /tmp && echo inside > index.html && exec python3 -m http.server 8000";
    server.post(&format!("{path}/programs"), &json!({ "command": line }));
    within(Duration::from_secs(30), || {
        server.get(&format!("{path}/ports")).json()["ports"] == json!([8000])
    });
    let page = server.get(&format!("{path}/ports/8000/index.html"));
    assert_eq!((page.status, page.body.as_slice()), (200, &b"inside\n"[..]));
    let closed = server.get(&format!("{path}/ports/8001/x"));
    assert_eq!(closed.problem(), (404, "port-closed".into()));
}

#[test]
fn the_server_tells_about_itself() {
    let server = Server::start();
    server.create(&json!({}));
    let host = format!("Host: {}", server.address);
    for path in ["/healthz", "/readyz"] {
        let answer = server.bare(&format!("GET {path}"), &[&host], &[]);
        assert_eq!((answer.status, answer.json()), (200, json!({ "status": "ok" })));
    }
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    for line in [
        "bulkhead_sandboxes{backend=\"native\",state=\"running\"} 1",
        "bulkhead_http_requests_total{call=\"createSandbox\",status=\"201\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.contains("bulkhead_sandbox_start_duration_seconds_count"), "{metrics}");
    let backends = server.get("/v1/capabilities").json();
    let native =
        backends["backends"].as_array().unwrap().iter().find(|it| it["name"] == "native");
    assert_eq!(native.unwrap()["usable"], true);
    let description = server.bare("GET /openapi.json", &[&host], &[]).json();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(description, kept);
}

#[test]
fn a_repeated_call_is_made_once_even_across_a_restart() {
    let mut server = Server::start();
    let headers = ["Content-Type: application/json", "Idempotency-Key: first"];
    let body = json!({ "labels": { "a": "b" } }).to_string();
    let make = |server: &Server, body: &str| {
        server.with("POST /v1/sandboxes", &headers, body.as_bytes())
    };
    let first = make(&server, &body);
    assert_eq!(first.status, 201);
    let second = make(&server, &body);
    assert!(second.head.contains("idempotency-replayed: true"), "{}", second.head);
    assert_eq!(first.json(), second.json());
    assert_eq!(make(&server, "{}").problem(), (422, "idempotency-key-reused".into()));
    server.restart();
    assert_eq!(make(&server, &body).json(), first.json());
    assert_eq!(server.host.bulkhead(["ls", "-q"]).stdout.lines().count(), 1);

    let path = format!("/v1/sandboxes/{}", first.json()["id"].as_str().unwrap());
    let once = ["Content-Type: application/json", "Idempotency-Key: run"];
    let run = json!({ "command": "echo x >> /tmp/count; wc -l < /tmp/count" }).to_string();
    for _ in 0..2 {
        let ran = server.with(&format!("POST {path}/exec"), &once, run.as_bytes());
        assert_eq!(ran.json()["stdout"], "1\n");
    }
    // Another caller's keys are its own.
    let other = server.host.bulkhead(["key", "create", "other"]).stdout.trim().to_owned();
    server.key = other;
    assert_ne!(make(&server, &body).json()["id"], first.json()["id"]);
}

#[test]
fn a_client_that_vanishes_takes_its_program_with_it() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let body = json!({ "command": "sleep 1000" }).to_string();
    let (host, key, length) = (&server.address, &server.key, body.len());
    let text = format!(
        "POST {path}/exec HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let running = || {
        let programs = server.get(&format!("{path}/programs")).json();
        programs["programs"][0]["running"].clone()
    };
    within(Duration::from_secs(20), || running() == json!(true));
    drop(stream);
    within(Duration::from_secs(20), || running() == json!(false));
}

#[test]
fn who_is_answered_before_everything_was_said_is_told_that_the_connection_ends() {
    let server = Server::start();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let host = &server.address;
    let text = format!(
        "POST /v1/sandboxes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer nobody's\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let head: Vec<String> = lines.take_while(|it| !it.is_empty()).collect();
    assert!(head[0].contains("401"), "{head:?}");
    assert!(head.iter().any(|it| it.eq_ignore_ascii_case("connection: close")), "{head:?}");
}

#[test]
fn everything_that_the_description_allows_is_answered_without_a_server_error() {
    let host = Host::new();
    // No name that somebody makes up is looked for in a registry.
    // However many rooms and copies somebody wants, the host stays usable.
    host.user("ceiling.images = [\"local\"]\n[rooms]\nmost = 8\n");
    let server = Server::at(host);
    let path = server.create(&json!({ "name": "tried" }));
    server
        .post(&format!("{path}/programs"), &json!({ "command": "sleep 1000", "stdin": true }));
    let tool =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks/schemathesis/bin/st");
    assert!(tool.exists(), "{} is missing: run scripts/install-sdks.sh", tool.display());
    let url = format!("http://{}/openapi.json", server.address);
    let key = format!("Authorization: Bearer {}", server.key);
    // Calls that would end the sandbox are tried on those that are not there. Those that wait for
    // something that does not come are none for this, and it can make no archives.
    // So are those that wait for the disk. Hundreds of copies of what it made itself are no trial.
    let ends = "^(deleteSandbox|stopSandbox|updateSandbox|createSandbox|createCheckpoint|\
                restoreCheckpoint)$";
    let others = "^(watchFiles|waitForProgram|waitForSandbox|uploadTree|deleteSandbox|stopSandbox|\
                  updateSandbox|createSandbox|forkSandbox|createCheckpoint|restoreCheckpoint)$";
    let tried =
        host_file(&server, "[parameters]\n\"path.id\" = \"tried\"\n\"path.program\" = 1\n");
    let nobody = host_file(&server, "");
    for (flag, which, settings) in [
        ("--exclude-operation-id-regex", others, &tried),
        ("--include-operation-id-regex", ends, &nobody),
    ] {
        let mut command = server.host.program(tool.to_str().unwrap());
        let ran = command.args(["--config-file", settings, "run", &url, "-H", &key]);
        let ran = ran.args(["--checks", "not_a_server_error", "--max-examples", "10"]);
        let ran = ran.args(["--seed", "1", "--request-timeout", "30", "--workers", "2"]);
        let ran = ran.args(["--phases", "examples,fuzzing", "--no-color", flag, which]);
        let ran = server.host.ended(ran);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    }
}

/// A file for `text`, and its path.
fn host_file(server: &Server, text: &str) -> String {
    let path = server.host.write(&format!("schemathesis-{}.toml", text.len()), text);
    path.to_str().unwrap().to_owned()
}
