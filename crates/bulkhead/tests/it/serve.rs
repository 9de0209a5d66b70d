//! `bulkhead serve`: what it takes, and what its rooms get.

use crate::host::Host;

#[test]
fn what_means_nothing_to_a_verb_is_not_taken_and_not_shown() {
    let host = Host::new();
    for (words, told) in [
        (&["serve", "--tty"][..], "`bulkhead serve` does not take --tty"),
        (&["serve", "--workspace", "."], "`bulkhead serve` does not take --workspace"),
        (&["serve", "--name", "x"], "`bulkhead serve` does not take --name"),
        (&["serve", "true"], "`bulkhead serve` does not take a program"),
        (&["create", "--interactive"], "`bulkhead create` does not take --interactive"),
    ] {
        let ran = host.bulkhead(words);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    let help = host.bulkhead(["serve", "--help"]).stdout;
    for flag in ["--workspace", "--tty", "--unprotect", "PROGRAM]"] {
        assert!(!help.contains(flag), "{flag}: {help}");
    }
}

#[test]
fn a_server_refuses_a_door_to_the_world_unless_told_so() {
    let ran = Host::new().bulkhead(["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, Some(125), "{}", ran.stderr);
    assert!(ran.stderr.contains("--allow-remote"), "{}", ran.stderr);
}

/// The time limit of the programs of a room made with `flags`.
fn program_limit(flags: &[&str]) -> serde_json::Value {
    let host = Host::new();
    let words = ["create", "--name", "r"].iter().chain(flags);
    assert_eq!(host.bulkhead(words).code, Some(0));
    let seen = host.json(&["inspect", "r"]);
    assert_eq!(host.bulkhead(["rm", "--force", "r"]).code, Some(0));
    seen.pointer("/room/plan/limits/timeout").cloned().unwrap_or_default()
}

#[test]
fn a_program_in_a_room_may_run_as_long_as_the_room_unless_told_otherwise() {
    assert_eq!(program_limit(&[]), serde_json::Value::Null);
    assert_eq!(program_limit(&["--timeout", "90s"]), serde_json::json!(90.0));
}
