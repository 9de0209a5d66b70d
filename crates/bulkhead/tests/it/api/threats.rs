//! Attacks on the server: THREATS E.

use std::{io::Write as _, net::TcpStream, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::{Value, json};

use super::{Server, by_socket};
use crate::host::{Host, within};

fn host(server: &Server) -> String {
    format!("Host: {}", server.address)
}

fn key(server: &Server) -> String {
    format!("Authorization: Bearer {}", server.key)
}

#[test]
fn e1_foreign_names_are_refused_before_anything_else() {
    let server = Server::start();
    let key = key(&server);
    for name in ["evil.example", "0.0.0.0:80", "localhost.evil.example", "10.0.0.1", "[::]"] {
        let answer =
            server.bare("GET /v1/sandboxes", &[&format!("Host: {name}"), &key], &[]).problem();
        assert_eq!(answer, (421, "foreign-host".to_owned()), "{name}");
        let e2b = server.bare("GET /v2/sandboxes", &[&format!("Host: {name}")], &[]);
        assert_eq!(e2b.status, 421, "{name}");
    }
    for name in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9"] {
        let answer = server.bare("GET /healthz", &[&format!("Host: {name}")], &[]);
        assert_eq!(answer.status, 200, "{name}");
    }
}

#[test]
fn e2_pages_of_others_and_simple_posts_are_refused() {
    let server = Server::start();
    let (host, key) = (host(&server), key(&server));
    for origin in ["http://evil.example", "null", "http://localhost:1", "file://"] {
        let origin = format!("Origin: {origin}");
        let answer = server.bare("GET /v1/sandboxes", &[&host, &key, &origin], &[]).problem();
        assert_eq!(answer, (403, "foreign-origin".to_owned()), "{origin}");
        let e2b = server.bare("POST /v2/sandboxes", &[&host, &origin], &[]);
        assert_eq!(e2b.status, 403, "{origin}");
    }
    let own = format!("Origin: http://{}", server.address);
    assert_eq!(server.bare("GET /v1/sandboxes", &[&host, &key, &own], &[]).status, 200);
    for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let form = format!("Content-Type: {form}");
        let answer = server.with("POST /v1/sandboxes", &[&form], b"{}").problem();
        assert_eq!(answer, (415, "media-type".to_owned()), "{form}");
    }
    let head = server.get("/v1/sandboxes").head.to_ascii_lowercase();
    assert!(!head.contains("set-cookie") && !head.contains("access-control"), "{head}");
}

#[test]
fn e3_streams_and_upgrades_look_at_the_origin_too() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let (host, key) = (host(&server), key(&server));
    let evil = "Origin: http://evil.example";
    let events = ["Accept: text/event-stream"];
    let upgrade = ["Connection: upgrade", "Upgrade: bulkhead-room"];
    for (path, more) in
        [("/v1/events".to_owned(), &events[..]), (format!("{path}/stream"), &upgrade[..])]
    {
        let headers = [&[host.as_str(), &key, evil], more].concat();
        let answer = server.bare(&format!("GET {path}"), &headers, &[]);
        assert_eq!(answer.problem(), (403, "foreign-origin".to_owned()), "{path}");
    }
}

/// Every call of the description: its method and a path that fits.
fn calls(server: &Server) -> Vec<(String, String, Value)> {
    let host = format!("Host: {}", server.address);
    let document = server.bare("GET /openapi.json", &[&host], &[]).json();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let path = path.replace("{id}", "none").replace("{program}", "1");
            let path = path.replace("{port}", "80").replace("{path}", "x");
            all.push((method.to_uppercase(), path, call.clone()));
        }
    }
    all
}

#[test]
fn e4_every_call_asks_for_a_key_and_only_a_whole_one_opens() {
    let server = Server::start();
    let host = host(&server);
    let late = server.host.bulkhead(["key", "create", "late", "--expires", "0s"]);
    let late = late.stdout.trim().to_owned();
    let wrong = [
        String::new(),
        "X-API-Key: e2b_0000000000000000000000000000000000000000".to_owned(),
        format!("Authorization: Bearer {}", &server.key[..20]),
        format!("Authorization: Bearer {}x", server.key),
        format!("Authorization: Basic {}", server.key),
        format!("Authorization: {}", server.key),
        format!("Authorization: Bearer {late}"),
    ];
    let mut asked = 0;
    for (method, path, call) in calls(&server) {
        if call["security"] == json!([]) {
            continue;
        }
        asked += 1;
        for header in &wrong {
            let headers = [host.as_str(), header];
            let headers = if header.is_empty() { &headers[..1] } else { &headers };
            let answer = server.bare(&format!("{method} {path}"), headers, &[]);
            assert_eq!(
                answer.problem(),
                (401, "unauthenticated".to_owned()),
                "{path} {header}"
            );
        }
    }
    assert!(30 < asked);
    let in_query = format!("GET /v1/sandboxes?key={0}&access_token={0}", server.key);
    assert_eq!(server.bare(&in_query, &[&host], &[]).status, 401);
    let long = format!("Authorization: Bearer {}", "x".repeat(100 << 10));
    assert_eq!(server.bare("GET /v1/sandboxes", &[&host, &long], &[]).status, 401);
    // One of a mebibyte is not even read to its end, whether or not there is an answer.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let long = format!("GET /v1/sandboxes HTTP/1.1\r\nX-API-Key: {}", "x".repeat(1 << 20));
    stream.write_all(long.as_bytes()).unwrap_or_default();
    drop(stream);
    assert_eq!(server.get("/v1/sandboxes").status, 200);
}

#[test]
fn e4_scopes_are_held_on_every_call() {
    let mut server = Server::start();
    let made = server.host.bulkhead(["key", "create", "eyes", "--scope", "read"]);
    server.key = made.stdout.trim().to_owned();
    let mut refused = 0;
    for (method, path, call) in calls(&server) {
        let needs_more = call["description"].as_str().unwrap().contains("`run`");
        let answer = server.with(&format!("{method} {path}"), &[], &[]);
        if needs_more {
            refused += 1;
            assert_eq!(answer.problem(), (403, "forbidden".to_owned()), "{method} {path}");
        } else {
            assert_ne!(answer.status, 403, "{method} {path}");
        }
        assert!(method == "GET" || needs_more, "{method} {path} needs only `read`");
    }
    assert!(15 < refused);
}

#[test]
fn e5_the_door_is_a_socket_of_the_owner_unless_told_otherwise() {
    let server = Server::on_socket();
    let mode = std::fs::metadata(server.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Its owner needs no key; but a wrong one is wrong.
    assert_eq!(by_socket(&server, "GET /v1/sandboxes", &[]).status, 200);
    assert_eq!(by_socket(&server, "GET /v1/sandboxes", &["X-API-Key: no"]).status, 401);
    let other = Host::new();
    let ran = other.bulkhead(["serve", "--listen", "0.0.0.0:0", "--allow-remote"]);
    assert_eq!(ran.code, Some(125), "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no key yet"), "{}", ran.stderr);
}

#[test]
fn e6_nothing_inside_reaches_the_server() {
    let server = Server::start();
    let port = server.address.rsplit(':').next().unwrap();
    for wanted in [json!({}), json!({ "network": { "allow": ["example.org"] } })] {
        let path = server.create(&wanted);
        let line = format!(
            "python3 - <<'E'\nimport socket\nfor host in ['127.0.0.1', '::1', '0.0.0.0']:\n  \
             try:\n    s = socket.create_connection((host, {port}), 3)\n    \
             s.sendall(b'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n')\n    \
             print('REACHED' if b'\"ok\"' in s.recv(4096) else 'refused')\n  \
             except OSError as e: print('refused')\nE"
        );
        let ran = server.shell(&path, &line);
        assert_eq!(ran["stdout"], "refused\nrefused\nrefused\n", "{ran}");
        let sockets = "find / -name '*.sock' -path '*bulkhead*' 2>/dev/null | wc -l";
        assert_eq!(server.shell(&path, sockets)["stdout"], "0\n");
    }
}

#[test]
fn e7_nothing_of_a_request_is_passed_on_as_it_is() {
    let server = Server::start();
    for (body, word) in [
        (json!({ "mounts": [{ "from": "/", "to": "/host" }] }), "mounts"),
        (json!({ "workspace": "/etc" }), "workspace"),
        (json!({ "backend": "none" }), "backend"),
        (json!({ "runtime": "x" }), "runtime"),
        (json!({ "policy": {} }), "policy"),
        (json!({ "image": "oci:/etc" }), "image"),
        (json!({ "image": "docker-archive:/etc/passwd" }), "image"),
        (json!({ "image": "/etc" }), "image"),
        (json!({ "network": { "mode": "open" } }), "open"),
        (json!({ "limits": { "memory": 1 } }), "memory"),
        (json!({ "labels": { "bulkhead.e2b": "{}" } }), "bulkhead."),
    ] {
        let answer = server.post("/v1/sandboxes", &body);
        assert_eq!(answer.problem(), (400, "malformed".to_owned()), "{body}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(word), "{body}");
    }
    let much = json!({ "require": ["OwnKernel"] });
    assert_eq!(server.post("/v1/sandboxes", &much).problem(), (422, "refused".to_owned()));
    assert_eq!(server.host.bulkhead(["ls", "--all", "-q"]).stdout, "");
}

#[test]
fn e8_an_id_is_looked_up_and_never_a_path() {
    let server = Server::start();
    server.create(&json!({ "name": "mine" }));
    for id in
        ["..", "%2e%2e", "..%2f..%2fstate", "mine%2f..", "mine%00", "min", "%6d%69%6e", ".x"]
    {
        for path in [format!("/v1/sandboxes/{id}"), format!("/v1/sandboxes/{id}/stats")] {
            let answer = server.get(&path);
            assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.head);
        }
        server.with(&format!("DELETE /v1/sandboxes/{id}"), &[], &[]);
    }
    assert_eq!(server.host.bulkhead(["ls", "-q"]).stdout, "mine\n");
}

#[test]
fn e9_odd_bodies_are_refused_as_they_come() {
    let server = Server::start();
    let json = "Content-Type: application/json";
    let long = vec![b' '; 5 << 20];
    let answer = server.with("POST /v1/sandboxes", &[json], &long);
    assert_eq!(answer.problem(), (413, "too-large".to_owned()));
    let (host, key) = (host(&server), key(&server));
    let mut chunked = Vec::new();
    for _ in 0..6 {
        chunked.extend(b"100000\r\n");
        chunked.extend(vec![b' '; 1 << 20]);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let headers = [host.as_str(), &key, json, "Transfer-Encoding: chunked"];
    let answer = server.bare("POST /v1/sandboxes", &headers, &chunked);
    assert_eq!(answer.problem(), (413, "too-large".to_owned()));
    for body in
        [&b"{"[..], b"[]", b"null", b"\xff", b"{\"a\":1}", b"{\"name\":\"a\",\"name\":\"b\"}"]
    {
        let answer = server.with("POST /v1/sandboxes", &[json], body);
        assert_eq!(answer.problem(), (400, "malformed".to_owned()), "{body:?}");
    }
    let headers =
        [host.as_str(), &key, json, "Content-Length: 5", "Transfer-Encoding: chunked"];
    let both = server.bare("POST /v1/sandboxes", &headers, b"0\r\n\r\n");
    assert_eq!(both.status, 400, "{}", both.head);
    assert_eq!(server.host.bulkhead(["ls", "--all", "-q"]).stdout, "");
}

#[test]
fn e10_who_does_not_listen_holds_nobody_up() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let line = "sleep 1; head -c 30000000 /dev/zero; echo done >&2";
    let started = server.post(&format!("{path}/programs"), &json!({ "command": line }));
    let program = format!("{path}/programs/{}", started.json()["id"]);
    let mut deaf = TcpStream::connect(&server.address).unwrap();
    let text = format!(
        "GET {program}/output HTTP/1.1\r\n{}\r\n{}\r\nAccept: text/event-stream\r\n\r\n",
        host(&server),
        key(&server)
    );
    deaf.write_all(text.as_bytes()).unwrap();
    within(Duration::from_mins(1), || server.get(&program).json()["running"] == json!(false));
    let rest = super::heard_for(deaf, Duration::from_secs(20));
    assert!(rest.contains("event: lost"), "there is no gap in {} bytes", rest.len());
}

#[test]
fn e13_a_key_is_nowhere_but_with_its_owner() {
    let server = Server::start();
    let path = server.create(&json!({}));
    let inside = server.shell(&path, "env; cat /proc/1/environ /proc/*/cmdline 2>/dev/null");
    let secret = server.key.trim_start_matches("e2b_").to_owned();
    assert!(!inside.to_string().contains(&secret));
    for path in ["/v1/events?limit=1000", "/metrics", "/v1/sandboxes", &path] {
        let answer = server.get(path);
        assert!(!String::from_utf8_lossy(&answer.body).contains(&secret), "{path}");
    }
    let dir = server.host.path().to_str().unwrap();
    let mut grep = server.host.program("/usr/bin/grep");
    let found = server.host.ended(grep.args(["-rlF", &secret, dir]));
    assert_eq!((found.code, found.stdout.as_str()), (Some(1), ""));
}

#[test]
fn e14_no_call_changes_a_policy_or_takes_a_wall_down() {
    let server = Server::start();
    let path = server.create(&json!({}));
    for (_, path, _) in calls(&server) {
        assert!(!path.contains("policy") && !path.contains("rules"), "{path}");
    }
    for body in [json!({ "network": { "mode": "observe" } }), json!({ "limits": {} })] {
        assert_eq!(server.json("PATCH", &path, &body).status, 400, "{body}");
    }
}
