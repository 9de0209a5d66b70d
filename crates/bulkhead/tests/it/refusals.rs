//! Bad input: a sentence, a hint, an exit code, and nothing left behind.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt as _, fs::symlink, net::UnixListener},
};

use crate::host::Host;

#[test]
fn mistakes_on_the_command_line_exit_with_2() {
    let cases: [&[&str]; 18] = [
        &[],
        &["rnu"],
        &["run"],
        &["run", "--memroy", "1g", "--", "true"],
        &["run", "--memory", "1q", "--", "true"],
        &["run", "--cpus", "0", "--", "true"],
        &["run", "--timeout", "soon", "--", "true"],
        &["run", "--net", "some", "--", "true"],
        &["run", "--allow", "*.com", "--", "true"],
        &["run", "--allow", "https://a b", "--", "true"],
        &["run", "--secret", "KEY=value", "--", "true"],
        &["run", "--backend", "kubernetes", "--", "true"],
        &["run", "--require", "NoFun", "--", "true"],
        &["run", "--no-sandbox", "--backend", "native", "--", "true"],
        &["run", "--name", "../x", "--", "true"],
        &["run", "--unprotect", "", "--", "true"],
        &["run", "--unprotect", "/etc", "--", "true"],
        &["run", "--unprotect", "../.vscode", "--", "true"],
    ];
    let host = Host::new();
    let mut shown = Vec::new();
    for case in cases {
        let ran = host.bulkhead(case);
        assert_eq!(ran.code, Some(2), "{case:?} {ran:?}");
        shown.push(format!("$ bulkhead {}\n{}\n", case.join(" "), ran.stderr));
    }
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn what_cannot_be_done_exits_with_125() {
    let host = Host::new();
    fs::write(host.project().join("file"), "").unwrap();
    let outside = host.write("outside/file", "");
    symlink(outside, host.project().join("link")).unwrap();
    let socket = UnixListener::bind(host.path().join("socket")).unwrap();
    let cases: [&[&str]; 24] = [
        &["--memory", "0"],
        &["--memory", "1k"],
        &["--pids", "0"],
        &["--timeout", "0"],
        &["--workdir", "/proc/self/fd/7"],
        &["--workdir", "../x"],
        &["--workdir", "/nowhere"],
        &["--workspace", "/"],
        &["--workspace", "nowhere"],
        &["--workspace", "file"],
        &["--mount", "nowhere:/x"],
        &["--mount", "link:/x"],
        &["--mount", "../socket:/x"],
        &["--mount", "file:x"],
        &["--mount", "file:/proc/x"],
        &["--mount", "/run:/x:ro"],
        &["--mount", "a:b:c:d"],
        &["--rootfs", "nowhere"],
        &["--rootfs", "file"],
        &["--env-file", "nowhere"],
        &["-e", "=value"],
        &["--require", "OwnKernel"],
        &["-t"],
        &["--events", "fd:77"],
    ];
    let mut shown = Vec::new();
    for case in cases {
        let ran = host.bulkhead([&["run"], case, &["--", "true"]].concat());
        assert_eq!(ran.code, Some(125), "{case:?} {ran:?}");
        shown.push(format!("$ bulkhead run {} -- true\n{}\n", case.join(" "), ran.stderr));
    }
    drop(socket);
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn the_whole_home_is_not_shared_by_accident() {
    let host = Host::new();
    let mut command = host.command(["run", "--", "true"]);
    let ran = host.ended(command.current_dir(host.home()));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn bulkheads_own_files_are_not_shared_for_writing() {
    let host = Host::new();
    let root = host.path().to_str().unwrap();
    let run = |flags: &[&str]| host.bulkhead([&["run"], flags, &["--", "true"]].concat());
    insta::assert_snapshot!(run(&["--workspace", root]).shown());
    assert_eq!(run(&["--workspace", root, "--read-only"]).code, Some(0));
}

#[test]
fn a_directory_that_is_gone_is_named() {
    let host = Host::new();
    let dir = host.path().join("gone");
    fs::create_dir(&dir).unwrap();
    // A shell, since a command cannot be started in a directory that is gone.
    let script = "cd \"$1\" && rmdir \"$1\" && exec \"$0\" run -- true";
    insta::assert_snapshot!(host.ended(host.shell(script).arg(dir)).shown());
}

#[test]
fn a_record_that_cannot_be_written_keeps_the_program_from_running() {
    let host = Host::new();
    host.write("records", "not a directory");
    let ran = host.bulkhead(["run", "--", "touch", "ran"]);
    assert!(!host.project().join("ran").exists());
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn arguments_are_limited_and_need_not_be_text() {
    let host = Host::new();
    let long = "x".repeat(120_000);
    let many = ["run", "--", "true"].map(OsString::from).into_iter();
    let ran = host.bulkhead(many.chain(std::iter::repeat_n(OsString::from(long), 9)));
    insta::assert_snapshot!(ran.shown());
    let weird = OsString::from_vec(b"\xff\xfe\x1b[31m".to_vec());
    let ran =
        host.bulkhead(["run", "--"].map(OsString::from).into_iter().chain([weird.clone()]));
    assert_eq!(ran.code, Some(127));
    assert!(ran.stderr.contains(r"`\xff\xfe\u{1b}[31m` was not found"), "{ran:?}");
    let echo = ["run", "--", "printf", "%s"].map(OsString::from).into_iter().chain([weird]);
    assert_eq!(host.command(echo).output().unwrap().stdout, b"\xff\xfe\x1b[31m");
}

#[test]
fn errors_are_told_to_programs_too() {
    let host = Host::new();
    let ran = host.bulkhead(["plan", "--json", "--memory", "1k", "--", "true"]);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "BH-E020");
    assert_eq!(error["error"]["exit_code"], 125);
}
