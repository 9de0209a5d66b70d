//! Images from a project's own files, as a user meets them.

mod build;
mod first_use;
mod languages;

use std::{fs, os::unix::fs::symlink};

use crate::host::Host;

const GO: &str = "module example.test/hello\n\ngo 1.22\n";

#[test]
fn init_writes_once_and_says_what_it_found() {
    let host = Host::new();
    host.write("project/go.mod", GO);
    let shown = [
        host.bulkhead(["image", "init", "--offline"]),
        host.bulkhead(["image", "init", "--offline"]),
        host.bulkhead(["image", "init", "--check"]),
    ];
    insta::assert_snapshot!(shown.map(|ran| ran.shown()).concat());
    let written = fs::read_to_string(host.project().join(".sandbox/Dockerfile")).unwrap();
    let printed = host.bulkhead(["image", "init", "--offline", "--print"]).stdout;
    assert_eq!(written, printed);
    let ignored = fs::read_to_string(host.project().join(".dockerignore")).unwrap();
    assert!(ignored.contains("**/.env\n") && ignored.contains("**/*.pem\n"), "{ignored}");
}

#[test]
fn check_says_what_drifted() {
    let host = Host::new();
    host.write("project/go.mod", GO);
    assert_eq!(host.bulkhead(["image", "init", "--offline"]).code, Some(0));
    host.write("project/go.mod", &GO.replace("1.22", "1.23"));
    insta::assert_snapshot!(host.bulkhead(["image", "init", "--check"]).shown());
    assert_eq!(host.bulkhead(["image", "init", "--offline", "--force"]).code, Some(0));
    assert_eq!(host.bulkhead(["image", "init", "--check"]).code, Some(0));
}

#[test]
fn a_monorepo_gets_a_file_per_project() {
    let host = Host::new();
    host.write("project/api/go.mod", GO);
    host.write("project/web/package.json", "{}");
    host.write("project/web/package-lock.json", "{}");
    let ran = host.bulkhead(["image", "init", "--offline"]);
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
    for dir in ["api", "web"] {
        assert!(host.project().join(dir).join(".sandbox/Dockerfile").is_file());
        assert!(host.project().join(dir).join(".dockerignore").is_file());
    }
    assert!(!host.project().join(".sandbox").exists());
}

#[test]
fn init_follows_no_link_out_of_the_project() {
    let host = Host::new();
    host.write("project/go.mod", GO);
    let elsewhere = host.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, host.project().join(".sandbox")).unwrap();
    let ran = host.bulkhead(["image", "init", "--offline", "--force"]);
    assert_eq!(ran.code, Some(1), "{}", ran.shown());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // The same for the file beside it, which is replaced and not written through.
    fs::remove_file(host.project().join(".sandbox")).unwrap();
    let precious = host.write("elsewhere/precious", "kept");
    symlink(&precious, host.project().join(".dockerignore")).unwrap();
    assert_eq!(host.bulkhead(["image", "init", "--offline", "--force"]).code, Some(0));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
}

#[test]
fn a_directory_without_a_project_is_told_so() {
    let host = Host::new();
    insta::assert_snapshot!(host.bulkhead(["image", "init", "--offline"]).shown());
    insta::assert_snapshot!(host.bulkhead(["image", "build"]).shown());
}

#[test]
fn what_nobody_trusted_is_not_built() {
    let host = Host::new();
    let file = host.write("project/.sandbox/Dockerfile", "FROM a:1\nRUN id\n");
    let refused = host.bulkhead(["image", "build"]);
    insta::assert_snapshot!(refused.shown());
    // With trust, the next thing that is missing is a daemon.
    let ran = host.bulkhead(["trust", ".sandbox/Dockerfile"]);
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
    let without = |args: &[&str]| {
        let mut command = host.command(args);
        host.ended(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock"))
    };
    assert!(without(&["image", "build"]).stderr.contains("[BH-E042]"));
    fs::write(&file, "FROM a:1\nRUN id; id\n").unwrap();
    assert!(without(&["image", "build"]).stderr.contains("[BH-E004]"));
    assert!(without(&["image", "build", "--yes"]).stderr.contains("[BH-E042]"));
}

#[test]
fn what_attacks_a_builder_is_neither_trusted_nor_built() {
    let host = Host::new();
    host.write("project/.sandbox/Dockerfile", "# syntax=attacker/x\nFROM a:1\n");
    let shown = [
        host.bulkhead(["trust", ".sandbox/Dockerfile"]),
        host.bulkhead(["image", "build", "--yes"]),
    ];
    insta::assert_snapshot!(shown.map(|ran| ran.shown()).concat());
}

#[test]
fn a_devcontainer_is_honoured_without_what_would_run_on_the_host() {
    let host = Host::new();
    let file = ".devcontainer/devcontainer.json";
    host.write(
        &format!("project/{file}"),
        "{ \"image\": \"a:1\", \"initializeCommand\": \"touch owned\" }",
    );
    insta::assert_snapshot!(host.bulkhead(["image", "build", "--yes"]).shown());
    host.write(&format!("project/{file}"), "{ /* fine */ \"image\": \"a:1\", }");
    insta::assert_snapshot!(host.bulkhead(["image", "build"]).shown());
    // The Dockerfile that it names needs trust, and so does it itself.
    host.write(&format!("project/{file}"), "{ \"build\": { \"dockerfile\": \"Dockerfile\" } }");
    host.write("project/.devcontainer/Dockerfile", "FROM a:1\n");
    for path in [".devcontainer/Dockerfile", file] {
        assert!(host.bulkhead(["image", "build"]).stderr.contains("[BH-E004]"));
        assert_eq!(host.bulkhead(["trust", path]).code, Some(0));
    }
    let mut command = host.command(["image", "build"]);
    let ran = host.ended(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock"));
    assert!(ran.stderr.contains("[BH-E042]"), "{}", ran.shown());
}

#[test]
fn a_scan_without_a_scanner_says_what_to_install() {
    let host = Host::new();
    let mut command = host.command(["image", "scan", "a:1"]);
    insta::assert_snapshot!(host.ended(command.env("PATH", "/nowhere")).shown());
}
