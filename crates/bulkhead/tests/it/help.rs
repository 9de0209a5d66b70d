//! What the command says about itself.

use crate::host::Host;

#[test]
fn every_verb_has_its_help() {
    let verbs: [&[&str]; 27] = [
        &["--help"],
        &["run", "--help"],
        &["plan", "--help"],
        &["exec", "--help"],
        &["cp", "--help"],
        &["port", "--help"],
        &["update", "--help"],
        &["pool", "--help"],
        &["pool", "ls", "--help"],
        &["pool", "drain", "--help"],
        &["doctor", "--help"],
        &["config", "--help"],
        &["config", "show", "--help"],
        &["config", "get", "--help"],
        &["config", "path", "--help"],
        &["config", "schema", "--help"],
        &["image", "--help"],
        &["image", "init", "--help"],
        &["image", "build", "--help"],
        &["image", "ls", "--help"],
        &["image", "prune", "--help"],
        &["image", "scan", "--help"],
        &["image", "bootstrap", "--help"],
        &["trust", "--help"],
        &["explain", "--help"],
        &["completion", "--help"],
        &["version", "--help"],
    ];
    let host = Host::new();
    for verb in verbs {
        let ran = host.bulkhead(verb);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let name: Vec<&str> = verb.iter().copied().filter(|it| *it != "--help").collect();
        insta::assert_snapshot!(format!("help-{}", name.join("-")), ran.stdout);
    }
}

#[test]
fn every_error_code_has_its_page() {
    insta::assert_snapshot!(Host::new().bulkhead(["explain"]).stdout);
}

#[test]
fn completions_know_the_flags() {
    let host = Host::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = host.bulkhead(["completion", shell]);
        assert!(script.stdout.contains("kill-after"), "{shell}");
    }
}

#[test]
fn the_version_is_told_in_three_ways() {
    let host = Host::new();
    let version = format!("bulkhead {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(host.bulkhead(["version"]).stdout, version);
    assert_eq!(host.bulkhead(["--version"]).stdout, version);
    assert_eq!(host.json(&["version", "--json"])["version"], env!("CARGO_PKG_VERSION"));
}
