//! Whose a sandbox is that is made, or was made before somebody wanted it.

use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use crate::host::{Host, within};

/// Makes a sandbox under an idempotency key.
fn once(server: &Server, key: &str, body: &Value) -> super::Answer {
    let key = format!("Idempotency-Key: {key}");
    let headers = ["Content-Type: application/json", key.as_str()];
    server.with("POST /v1/sandboxes", &headers, body.to_string().as_bytes())
}

/// What waits on the server's host.
fn waiting(server: &Server) -> Vec<String> {
    let listed = server.host.bulkhead(["pool", "ls", "-q"]).stdout;
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn two_servers_of_one_host_make_two_sandboxes_of_one_key() {
    let (one, other) = (Server::start(), Server::start());
    let made = [&one, &other].map(|it| once(it, "same", &json!({})));
    for answer in &made {
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    let [first, second] = made.map(|it| it.json()["id"].clone());
    assert_ne!(first, second);
}

#[test]
fn a_sandbox_that_waits_becomes_that_of_whoever_asks_for_a_plain_one() {
    let mut server = Server::with_flags(Host::new(), &["--pool", "2", "--allow", "a.example"]);
    within(Duration::from_mins(1), || waiting(&server).len() == 2);
    let before = waiting(&server);
    let wanted = json!({
        "name": "shop", "labels": { "team": "a" }, "env": { "GREETING": "hello" },
        "lifetime": { "ttl_seconds": 600 },
    });
    let made = once(&server, "first", &wanted);
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let made = made.json();
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(before.contains(&id), "{before:?} {made}");
    assert_eq!((&made["name"], &made["labels"]), (&json!("shop"), &json!({ "team": "a" })));
    assert!(made["expires_at"].is_string(), "{made}");
    let path = format!("/v1/sandboxes/{id}");
    assert_eq!(server.shell(&path, "echo $GREETING")["stdout"], "hello\n");
    // E2B's door has the same pool, and what it makes has nothing of who came before.
    within(Duration::from_mins(1), || waiting(&server).len() == 2);
    let before = waiting(&server);
    let key = format!("X-API-Key: {}", server.key);
    let body = br#"{"templateID":"base","allow_internet_access":true}"#;
    let theirs = server.with("POST /v2/sandboxes", &[&key], body);
    assert_eq!(theirs.status, 201, "{}", String::from_utf8_lossy(&theirs.body));
    let theirs = theirs.json()["sandboxID"].as_str().unwrap().to_owned();
    assert!(before.contains(&theirs), "{before:?} {theirs}");
    // Whoever wants another one gets that, made for them.
    within(Duration::from_mins(1), || waiting(&server).len() == 2);
    let before = waiting(&server);
    let odd = server.create(&json!({ "limits": { "pids": 50 } }));
    assert!(!before.iter().any(|it| odd.ends_with(it)), "{odd}");
    // A call whose answer was lost with the server finds what it made.
    lose_the_answer(&server, "first");
    server.restart();
    let again = once(&server, "first", &wanted);
    assert_eq!((again.status, &again.json()["id"]), (201, &json!(id)));
}

/// Leaves of the answer to the call with `key` only that the call was begun.
fn lose_the_answer(server: &Server, key: &str) {
    let entries = server.host.state().join("server/idempotency").read_dir().unwrap();
    let mut lost = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        kept["answer"] = Value::Null;
        std::fs::write(&path, kept.to_string()).unwrap();
        lost += 1;
    }
    assert_eq!(lost, 1, "one call was made under a key: `{key}`");
}
