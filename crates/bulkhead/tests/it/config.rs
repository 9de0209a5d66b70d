//! Layers, and where each value came from.

use std::{os::unix::fs::symlink, time::Duration};

use crate::host::{Host, Ran, within};

fn get(host: &Host, key: &str) -> String {
    host.bulkhead(["config", "get", key]).stdout.trim().to_owned()
}

#[test]
fn each_layer_lies_over_the_one_before() {
    let host = Host::new();
    assert_eq!(get(&host, "limits.memory"), "4g");
    host.user("[limits]\nmemory = '3g'\npids = 500\n");
    assert_eq!(get(&host, "limits.memory"), "3g");
    host.project_file("[limits]\nmemory = '2g'\n");
    assert_eq!([get(&host, "limits.memory"), get(&host, "limits.pids")], ["2g", "500"]);
    let mut command = host.command(["config", "get", "limits.memory"]);
    let ran = host.ended(command.env("BULKHEAD_MEMORY", "1g"));
    assert_eq!(ran.stdout, "1g\n");
    host.user("");
    host.project_file("");
    let mut command = host.command(["plan", "--pids", "77", "--", "true"]);
    let ran = host.ended(command.env("BULKHEAD_PIDS", "88"));
    assert!(ran.stdout.contains("77 processes (--pids)"), "{ran:?}");
}

#[test]
fn each_value_says_where_it_came_from() {
    let host = Host::new();
    host.user(
        "schema_version = 1\nrequire = ['NoNetwork']\n\n[limits]\nmemory = '3g'\ncpus = 1.5\n\
         [env]\nCOLOR = 'blue'\n[ceiling]\nmemory = '8g'\nnetwork = 'none'\n",
    );
    host.project_file("require = ['MemoryBounded']\n[limits]\nmemory = 2147483648\n[ceiling]\nmemory = '16g'\npids = 9\n");
    let mut command = host.command(["config", "show", "--origin"]);
    let ran = host.ended(command.env("BULKHEAD_PIDS", "7"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn what_is_shown_can_be_read_again() {
    let host = Host::new();
    host.user(
        "kill-after = '1500ms'\n[limits]\nmemory = '1500k'\ntimeout = '1h30m'\noutput = 1000\n",
    );
    let shown = host.bulkhead(["config", "show"]).stdout;
    host.user(&shown);
    assert_eq!(host.bulkhead(["config", "show"]).stdout, shown);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let cases = [
        "memroy = '1g'",
        "[limits]\nmemroy = '1g'",
        "memory = '1g'",
        "colour = 'red'",
        "[limits]\nmemory = '1q'",
        "[limits]\nmemory = true",
        "[limits]\npids = -1",
        "[limits]\ncpus = 0",
        "backend = 'kubernetes'",
        "network = 'opne'",
        "require = 'NoNetwork'",
        "require = ['NoNetwork', 'NoFun']",
        "mounts = ['data:/data']",
        "mounts = ['/a:/b:/c']",
        "schema_version = 2",
        "[limits\nmemory = '1g'",
        "[ceiling]\nmounts = ['srv']",
        "limits = 3",
        "\u{1b}]0;title = 1",
    ];
    let host = Host::new();
    let mut shown = Vec::new();
    for case in cases {
        host.user(case);
        let ran = host.bulkhead(["config", "show"]);
        shown.push(format!("{}\n=> {}\n", case.escape_debug(), ran.shown()));
    }
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn a_variable_with_a_wrong_value_is_refused_and_a_misspelt_one_is_mentioned() {
    let host = Host::new();
    let run = |name: &str, value: &str| {
        let mut command = host.command(["config", "get", "limits.memory"]);
        host.ended(command.env(name, value))
    };
    let show = |name: &str, value: &str| {
        let mut command = host.command(["config", "show"]);
        host.ended(command.env(name, value)).stderr
    };
    insta::assert_snapshot!(run("BULKHEAD_MEMORY", "lots").shown());
    insta::assert_snapshot!(show("BULKHEAD_MEMROY", "1g"));
    assert_eq!(show("BULKHEAD_SOMETHING_ELSE", "1g"), "");
}

#[test]
fn a_project_is_found_from_below_but_not_beyond_its_repository_or_at_home() {
    let host = Host::new();
    let source = |ran: &Ran| ran.stdout.trim().to_owned();
    host.project_file("[limits]\npids = 11\n");
    let deep = host.project().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let pids = |dir: &std::path::Path| {
        let mut command = host.command(["config", "get", "limits.pids"]);
        source(&host.ended(command.current_dir(dir)))
    };
    assert_eq!(pids(&deep), "11");
    std::fs::create_dir(host.project().join("a/.git")).unwrap();
    assert_eq!(pids(&deep), "1024");
    host.write("home/.bulkhead/config.toml", "[limits]\npids = 12\n");
    assert_eq!(pids(&host.home()), "1024");
}

#[test]
fn a_named_file_replaces_the_projects() {
    let host = Host::new();
    host.project_file("[limits]\npids = 11\n");
    let named = host.write("other.toml", "[limits]\npids = 5000\n");
    let named = named.to_str().unwrap();
    let ran = host.bulkhead(["config", "get", "limits.pids", "--config", named]);
    assert_eq!(ran.stdout, "5000\n");
    // What the user names has the user's word: nothing to trust.
    let ran = host.bulkhead(["plan", "--config", named, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = host.bulkhead(["plan", "--config", "absent.toml", "--", "true"]);
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn a_pipe_or_link_instead_of_the_projects_file_is_refused_at_once() {
    let host = Host::new();
    let path = host.project_file("");
    std::fs::remove_file(&path).unwrap();
    symlink("/etc/hostname", &path).unwrap();
    let linked = host.bulkhead(["config", "show"]);
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut child = host.command(["config", "show"]).spawn().unwrap();
    within(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
    let piped = host.bulkhead(["config", "show"]);
    insta::assert_snapshot!(format!("{}\n{}", linked.shown(), piped.shown()));
}

#[test]
fn ceilings_only_sink_and_hold_against_flags() {
    let host = Host::new();
    host.user("[ceiling]\ndisk = '1g'\n");
    let ran = host.bulkhead(["plan", "--disk", "2g", "--", "true"]);
    insta::assert_snapshot!(ran.shown());
    let plan = host.json(&["plan", "--json", "--", "true"]);
    assert_eq!(plan["plan"]["limits"]["disk"], 1 << 30);
}

#[test]
fn without_a_home_only_root_has_a_place_for_records() {
    let host = Host::new();
    let mut command = host.command(["config", "path"]);
    let ran = host.ended(command.env_remove("HOME").env_remove("BULKHEAD_HOME"));
    let expected =
        if rustix::process::geteuid().is_root() { "/var/lib/bulkhead/state" } else { "" };
    let state = ran.stdout.lines().find_map(|line| line.strip_prefix("state"));
    let state = state.unwrap_or_default().replace("(absent)", "");
    assert_eq!(state.trim(), expected, "{ran:?}");
}

#[test]
fn the_schema_lists_every_key() {
    insta::assert_snapshot!(Host::new().bulkhead(["config", "schema"]).stdout);
}

#[test]
fn an_unknown_key_is_suggested() {
    let host = Host::new();
    insta::assert_snapshot!(host.bulkhead(["config", "get", "limits.memroy"]).shown());
}
