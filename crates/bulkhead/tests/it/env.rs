//! What a program finds in its environment.

use crate::host::{Host, Ran};

/// Runs `env` inside, with these variables outside.
fn env(host: &Host, outside: &[(&str, &str)], flags: &[&str]) -> Ran {
    let args = [&["run"], flags, &["--", "env"]].concat();
    let mut ran = host.ended(host.command(args).envs(outside.iter().copied()));
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    ran.stdout = lines.join("\n") + "\n";
    ran
}

#[test]
fn nothing_is_inherited_but_what_is_harmless() {
    let host = Host::new();
    let outside = [
        ("LANG", "de_DE.UTF-8"),
        ("TZ", "Europe/Berlin"),
        ("API_KEY", "secret"),
        ("LD_BIND_NOW", "1"),
        ("SSH_AUTH_SOCK", "/agent"),
        ("EDITOR", "vi"),
        ("TERM", "xterm-256color"),
    ];
    insta::assert_snapshot!(env(&host, &outside, &[]).shown());
}

#[test]
fn flags_go_before_files_and_files_before_configuration() {
    let host = Host::new();
    host.user("[env]\nA = 'config'\nB = 'config'\nC = 'config'\n");
    host.write("project/one", "# comment\nB=one\nC=one\nX='quoted'\nEDITOR\nSECRET_KEY\n");
    host.write("project/two", "C=two\n");
    let outside = [("EDITOR", "vi"), ("SECRET_KEY", "hush"), ("PASSWORD", "hush")];
    let flags = [
        "--env-file",
        "one",
        "--env-file",
        "two",
        "-e",
        "D=flag",
        "-e",
        "PASSWORD",
        "-e",
        "NONE",
    ];
    let ran = env(&host, &outside, &flags);
    let own = ["A", "B", "C", "D", "X", "EDITOR", "SECRET_KEY", "PASSWORD", "NONE"];
    let found: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| own.contains(&line.split('=').next().unwrap()))
        .collect();
    insta::assert_snapshot!(format!("{}\n{}", found.join("\n"), ran.stderr));
}

#[test]
fn names_and_values_need_not_be_text() {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};
    let host = Host::new();
    let variable = OsString::from_vec(b"WEIRD=\xff\xfe".to_vec());
    let args = ["run", "-e"].map(OsString::from).into_iter().chain([variable]);
    let program = ["--", "sh", "-c", r#"printf %s "$WEIRD" | od -An -tx1"#].map(OsString::from);
    let ran = host.bulkhead(args.chain(program));
    assert_eq!(ran.stdout.trim(), "ff fe");
}

#[test]
fn git_knows_the_callers_name_and_nothing_else() {
    let host = Host::new();
    host.write(
        "home/.gitconfig",
        "[user]\n name = Ada\n email = ada@example.org\n[credential]\n helper = store\n",
    );
    let ran = host.bulkhead(["run", "--", "sh", "-c", "cat ~/.gitconfig; ls -A ~"]);
    insta::assert_snapshot!(ran.stdout);
}
