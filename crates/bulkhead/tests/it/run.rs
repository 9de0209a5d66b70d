//! A program runs, ends, and what is said about it.

use std::fs;

use crate::host::Host;

#[test]
fn exit_codes_are_those_of_the_program_or_say_why() {
    let host = Host::new();
    let cases: [(&[&str], &[&str], i32); 8] = [
        (&[], &["true"], 0),
        (&[], &["sh", "-c", "exit 42"], 42),
        (&[], &["nowhere"], 127),
        (&[], &["/etc/hostname"], 126),
        (&[], &["sh", "-c", "kill -SEGV $$"], 139),
        (&["--timeout", "200ms"], &["sleep", "60"], 124),
        (&["--output", "1k"], &["yes"], 1),
        (&["--backend", "none"], &["sh", "-c", "exit 7"], 7),
    ];
    let mut shown = Vec::new();
    for (flags, program, code) in cases {
        let ran = host.bulkhead([&["run"], flags, &["--"], program].concat());
        assert_eq!(ran.code, Some(code), "{program:?} {}", ran.stderr);
        let words = [flags, program].concat().join(" ");
        shown.push(format!("{words}\n{}\n", ran.stderr));
    }
    insta::assert_snapshot!(shown.concat());
}

/// Whether this host holds a limit on memory, by what it says of itself.
fn holds_memory(host: &Host) -> bool {
    let doctor = host.json(&["doctor", "--json"]);
    let findings = doctor["backends"][0]["findings"].as_array().unwrap();
    let memory = findings.iter().find(|it| it["guarantee"] == "MemoryBounded").unwrap();
    memory["state"] == "upheld"
}

#[test]
fn a_limit_that_is_asked_for_is_held_or_nothing_runs() {
    let host = Host::new();
    let script = "echo ran; x=$(head -c 200m /dev/zero | tr '\\0' x)";
    let ran = host.bulkhead(["run", "--memory", "64m", "--", "sh", "-c", script]);
    if holds_memory(&host) {
        let said =
            "bulkhead: out of memory: the sandbox used its 64 MiB (raise it with --memory)\n";
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(137), said), "{ran:?}");
    } else {
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(125), ""), "{ran:?}");
        assert!(ran.stderr.contains("no backend here upholds MemoryBounded"), "{ran:?}");
    }
}

#[test]
fn a_default_that_is_not_held_is_said_and_no_other() {
    let host = Host::new();
    let output = host.command(["run", "--", "true"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.contains("not held on this host: MemoryBounded"), !holds_memory(&host));
    assert_eq!(said.is_empty(), holds_memory(&host));
}

#[test]
fn a_caller_of_real_time_priority_does_not_pass_it_on() {
    let host = Host::new();
    // Others than root cannot have it; what they can have is kept.
    let (policy, inside) = if rustix::process::geteuid().is_root() {
        (["--rr", "5"], "policy 0\n")
    } else {
        (["--batch", "0"], "policy 3\n")
    };
    let mut command = host.program("chrt");
    let script = "read -r all < /proc/self/stat; set -- ${all##*)}; echo policy ${39}";
    let bulkhead = env!("CARGO_BIN_EXE_bulkhead");
    command.args(policy).args([bulkhead, "run", "--", "sh", "-c", script]);
    let ran = host.ended(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), inside), "{ran:?}");
}

#[test]
fn two_dashes_are_only_needed_for_flags_before_the_program() {
    let host = Host::new();
    assert_eq!(host.bulkhead(["run", "echo", "--memory", "-q"]).stdout, "--memory -q\n");
    assert_eq!(host.bulkhead(["run", "--", "echo", "--", "x"]).stdout, "-- x\n");
}

#[test]
fn the_workspace_is_at_its_own_path_and_written_by_its_owner() {
    let host = Host::new();
    let deep = host.project().join("deep");
    fs::create_dir(&deep).unwrap();
    let mut command =
        host.command(["run", "--workspace", "..", "--", "sh", "-c", "pwd; touch x"]);
    let ran = host.ended(command.current_dir(&deep));
    assert_eq!(ran.stdout, "[HOST]/project/deep\n", "{ran:?}");
    assert!(deep.join("x").exists());
    let ran = host.bulkhead(["run", "--read-only", "--", "touch", "y"]);
    assert_ne!(ran.code, Some(0));
    assert!(!host.project().join("y").exists());
}

#[test]
fn env_files_look_empty_unless_shown() {
    let host = Host::new();
    host.write("project/.env", "KEY=hush\n");
    assert_eq!(host.bulkhead(["run", "--", "cat", ".env"]).stdout, "");
    assert_eq!(
        host.bulkhead(["run", "--show-env-files", "--", "cat", ".env"]).stdout,
        "KEY=hush\n"
    );
}

#[test]
fn what_is_mounted_is_seen_where_it_was_asked_for() {
    let host = Host::new();
    host.write("data/file", "text\n");
    let run = |mode: &str| {
        let mount = format!("../data:/data{mode}");
        let script = "cat /data/file; echo more >> /data/file && cat /data/file";
        host.bulkhead(["run", "-v", &mount, "--", "sh", "-c", script]).stdout
    };
    let data = || fs::read_to_string(host.path().join("data/file")).unwrap();
    assert_eq!((run(":ro"), data()), ("text\n".to_owned(), "text\n".to_owned()));
    assert_eq!(
        (run(":private"), data()),
        ("text\ntext\nmore\n".to_owned(), "text\n".to_owned())
    );
    assert_eq!((run(""), data()), ("text\ntext\nmore\n".to_owned(), "text\nmore\n".to_owned()));
}

#[test]
fn a_report_says_how_it_ended() {
    let host = Host::new();
    let report = |flags: &[&str], program: &[&str]| {
        let args = [&["run", "--report", "report.json"], flags, &["--"], program].concat();
        host.bulkhead(args);
        let text = fs::read_to_string(host.project().join("report.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let ended = report(&[], &["sh", "-c", "echo out; echo error >&2; exit 3"]);
    assert_eq!(ended["ending"], serde_json::json!({ "kind": "exited", "code": 3 }));
    assert_eq!(ended["exit_code"], 3);
    assert_eq!(ended["stdout"], serde_json::json!({ "bytes": 4, "truncated": false }));
    assert!(ended["usage"]["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(ended["upheld"].as_array().unwrap().contains(&"NoNetwork".into()));
    let flooded = report(&["--output", "1k"], &["yes"]);
    assert_eq!(flooded["ending"]["kind"], "output_limit");
    assert_eq!(flooded["stdout"]["truncated"], true);
    let refused = report(&["--memory", "1k"], &["true"]);
    assert_eq!(refused["error"]["code"], "BH-E020");
    assert_eq!(refused["exit_code"], 125);
}

#[test]
fn a_report_does_not_follow_a_link_that_was_laid_for_it() {
    let host = Host::new();
    let precious = host.write("home/.profile", "precious");
    std::os::unix::fs::symlink(&precious, host.project().join("report.json")).unwrap();
    let ran = host.bulkhead(["run", "--report", "report.json", "--", "true"]);
    insta::assert_snapshot!(ran.shown());
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
}

#[test]
fn events_are_recorded_and_copied() {
    let host = Host::new();
    host.bulkhead(["run", "--name", "one", "--events", "events", "--", "true"]);
    // Another test may have killed its Bulkhead, and then this one sweeps after it.
    let names = |text: String| -> Vec<String> {
        let lines =
            text.lines().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
        let own = lines.filter(|line| line["sandbox"] == "one");
        own.map(|line| line["event"].as_str().unwrap().to_owned()).collect()
    };
    let copy = names(fs::read_to_string(host.project().join("events")).unwrap());
    let own = names(fs::read_to_string(host.state().join("events.jsonl")).unwrap());
    assert_eq!(copy, own);
    insta::assert_snapshot!(copy.join("\n"));
}

#[test]
fn events_reach_an_open_descriptor() {
    let host = Host::new();
    let ran = host.ended(&mut host.shell("\"$0\" run --name x --events fd:3 -- true 3>&1"));
    let told =
        |event: &str| ran.stdout.contains(&format!("\"sandbox\":\"x\",\"event\":\"{event}\""));
    assert!(told("asked") && told("destroyed"), "{ran:?}");
}

#[test]
fn events_and_output_share_a_file_without_writing_over_each_other() {
    let host = Host::new();
    let script = "{ echo before; \"$0\" run --name shared --events fd:1 -- echo inside; echo after; } > all";
    host.ended(&mut host.shell(script));
    let all = fs::read_to_string(host.project().join("all")).unwrap();
    let lines: Vec<&str> = all.lines().filter(|it| !it.starts_with('{')).collect();
    assert_eq!(lines, ["before", "inside", "after"], "{all}");
    assert!(all.contains("\"event\":\"asked\"") && all.contains("\"event\":\"destroyed\""));
}

#[test]
fn without_walls_there_is_a_warning_each_time_even_if_quiet() {
    let host = Host::new();
    let cases: [&[&str]; 3] =
        [&["--no-sandbox"], &["--backend", "local"], &["--quiet", "--backend", "none"]];
    for flags in cases {
        let ran = host.bulkhead([&["run"], flags, &["--", "true"]].concat());
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (Some(0), "bulkhead: warning: no walls: `true` runs with all of your rights\n")
        );
    }
    let mut command = host.command(["run", "--", "true"]);
    let ran = host.ended(command.env("BULKHEAD_BACKEND", "none"));
    assert!(ran.stderr.contains("no walls"), "{ran:?}");
}

#[test]
fn a_dry_run_runs_nothing() {
    let host = Host::new();
    let ran = host.bulkhead(["run", "--dry-run", "--", "touch", "ran"]);
    assert!(ran.stdout.contains("program    touch ran"), "{ran:?}");
    assert!(!host.project().join("ran").exists());
    assert!(!host.state().join("events.jsonl").exists());
}

#[test]
fn an_open_network_asks_whom_the_host_asks_for_names() {
    let host = Host::new();
    let names = fs::read_to_string("/etc/resolv.conf").unwrap();
    // Twice: the first time it is made, from then on most of `/etc` is shown.
    for _ in 0..2 {
        let args = ["run", "--quiet", "--net", "open", "--", "cat", "/etc/resolv.conf"];
        assert_eq!(host.bulkhead(args).stdout, names);
    }
}

#[test]
fn settings_are_those_of_the_host_whether_they_are_made_or_shown() {
    let host = Host::new();
    let seen = || {
        let ran = host.bulkhead(["run", "--", "sh", "-c", "cat /etc/services /etc/profile"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let expected = ["/etc/services", "/etc/profile"].map(|it| fs::read_to_string(it).unwrap());
    // The first makes it and has it laid, the second is shown that.
    assert_eq!([seen(), seen()], [expected.concat(), expected.concat()]);
    let frames = || fs::read_dir(host.state().join("frames")).unwrap().flatten();
    let laid: Vec<_> = frames().map(|it| it.path()).collect();
    let [frame] = laid.as_slice() else { panic!("{laid:?}") };
    // One of which a part is gone says what to do about it.
    fs::remove_dir_all(frame.join("etc/ssl")).unwrap();
    let ran = host.bulkhead(["run", "--", "true"]);
    assert_eq!(ran.code, Some(125));
    assert!(ran.stderr.contains("remove `frames`, and it is laid again"), "{}", ran.stderr);
    // Of another frame than that of this host nobody is shown anything.
    fs::rename(frame, frame.with_file_name("0123456789abcdef")).unwrap();
    assert_eq!(seen(), expected.concat());
    assert_eq!(frames().count(), 2);
}

#[test]
fn nothing_of_ours_is_on_stdout_and_nothing_at_all_on_stderr_of_a_quiet_run() {
    let host = Host::new();
    let ran = host.bulkhead(["run", "--quiet", "--net", "open", "--", "echo", "x"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("x\n", ""));
    let ran = host.bulkhead(["run", "--net", "open", "--", "echo", "x"]);
    assert!(ran.stderr.contains("the network is open"), "{ran:?}");
}

#[test]
fn a_name_that_is_spared_can_be_made_and_others_cannot() {
    let host = Host::new();
    let script = "mkdir .vscode && echo made; mkdir .idea 2>/dev/null || echo kept";
    let ran = host.bulkhead(["run", "--unprotect", ".vscode", "--", "sh", "-c", script]);
    assert_eq!(ran.stdout, "made\nkept\n", "{ran:?}");
    assert!(host.project().join(".vscode").is_dir());
}
