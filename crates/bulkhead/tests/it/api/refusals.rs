//! What is asked for and cannot be had: each answer says why and what to do, and none is a fault
//! of the server.

use serde_json::{Value, json};

use super::Server;
use crate::host::Host;

/// Asks, and looks at the refusal.
fn refused(server: &Server, method: &str, path: &str, body: &Value) {
    let answer = server.json(method, path, body);
    let shown = format!("{method} {path} {body}: {} {}", answer.status, answer.head);
    assert!((400..500).contains(&answer.status), "{shown}");
    assert!(answer.head.contains("application/problem+json"), "{shown}");
    let problem = answer.json();
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    assert!(text("code").starts_with("BH-E"), "{shown} {problem}");
    assert!(!text("detail").is_empty() && !text("hint").is_empty(), "{shown} {problem}");
}

#[test]
fn odd_numbers_and_names_are_refused_whatever_the_sandbox_does() {
    let host = Host::new();
    host.user("ceiling.images = [\"local\"]\n");
    let server = Server::at(host);
    for name in ["lives", "frozen", "ended"] {
        server.create(&json!({ "name": name }));
    }
    assert_eq!(server.with("POST /v1/sandboxes/frozen/pause", &[], &[]).status, 200);
    assert_eq!(server.with("POST /v1/sandboxes/ended/stop", &[], &[]).status, 200);
    let huge = json!(1e300);
    for name in ["lives", "frozen", "ended", "nobody", "..%2F..", "%00"] {
        let path = format!("/v1/sandboxes/{name}");
        for (method, below, body) in [
            ("POST", "/fork", json!({ "count": 0 })),
            ("POST", "/fork", json!({ "count": huge })),
            ("POST", "/fork", json!({ "count": -1 })),
            ("POST", "/fork", json!({ "name": "a/b" })),
            ("POST", "/fork", json!([])),
            ("POST", "/checkpoints", json!({ "name": "../x" })),
            ("POST", "/checkpoints", json!({ "name": 7 })),
            ("PATCH", "", json!({ "ttl_seconds": -1 })),
            ("PATCH", "", json!({ "idle_seconds": huge })),
            ("PATCH", "", json!({ "on_timeout": "explode" })),
            ("POST", "/keep-alive", json!({ "ttl_seconds": [] })),
            ("POST", "/exec", json!({ "argv": ["true"], "timeout_seconds": huge })),
            ("POST", "/exec", json!({ "argv": ["true"], "keep_bytes": u64::MAX })),
            ("GET", "/programs/99999999999999999999", json!({})),
            ("GET", "/programs/77", json!({})),
            ("GET", "/wait?timeout_seconds=1e308", json!({})),
        ] {
            refused(&server, method, &format!("{path}{below}"), &body);
        }
    }
    for name in ["ended", "nobody"] {
        for verb in ["pause", "resume", "stop", "fork", "checkpoints"] {
            refused(&server, "POST", &format!("/v1/sandboxes/{name}/{verb}"), &json!({}));
        }
    }
}

#[test]
fn sandboxes_and_checkpoints_that_cannot_be_are_refused() {
    let server = Server::start();
    for body in [
        json!({ "limits": { "memory_bytes": -1 } }),
        json!({ "limits": { "cpus": 1e300 } }),
        json!({ "limits": { "pids": 0 } }),
        json!({ "limits": { "disk_bytes": 1 } }),
        json!({ "network": { "mode": "open" } }),
        json!({ "network": { "allow": ["a".repeat(5000)] } }),
        json!({ "image": "oci:/etc" }),
        json!({ "require": ["Nothing"] }),
        json!({ "labels": { "bulkhead.call": "mine" } }),
        json!({ "lifetime": { "ttl_seconds": 1e300 } }),
        json!({ "pool": 3 }),
    ] {
        refused(&server, "POST", "/v1/sandboxes", &body);
    }
    for name in ["nobody", "%2e%2e%2Fx", "%00"] {
        let path = format!("/v1/checkpoints/{name}");
        refused(&server, "GET", &path, &json!({}));
        refused(&server, "DELETE", &path, &json!({}));
        refused(&server, "POST", &format!("{path}/restore"), &json!({}));
    }
    refused(&server, "GET", "/v1/checkpoints?limit=0", &json!({}));
    refused(&server, "GET", "/v1/checkpoints?cursor=x", &json!({}));
    refused(&server, "POST", "/v1/pool", &json!({}));
}

#[test]
fn a_container_engine_that_does_not_answer_is_no_fault_of_the_server() {
    for engine in ["docker", "podman"] {
        let flags = ["--backend", engine];
        let server = Server::surrounded(Host::new(), &flags, |it| {
            for name in ["DOCKER_HOST", "CONTAINER_HOST"] {
                it.env(name, "unix:///nowhere/engine.sock");
            }
        });
        refused(&server, "POST", "/v1/sandboxes", &json!({}));
        assert_eq!(server.get("/v1/sandboxes").status, 200);
    }
}
