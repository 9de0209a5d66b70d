//! The way out, as a user has it.

mod containers;
mod neighbours;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::host::Host;

/// A server on the host's loopback that answers every request with `200` and `hello`.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || greet(stream));
        }
    });
    port
}

fn greet(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| 2 < count) {
        line.clear();
    }
    let mut stream = stream;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nhello\n")
        .unwrap_or_default();
}

const CURL: &str = "curl -sS --max-time 20";

#[test]
fn what_is_allowed_is_reached_with_and_without_a_proxy_and_nothing_else_is() {
    let (host, port) = (Host::new(), server());
    let allow = format!("host.bulkhead.internal:{port}");
    let report = host.path().join("report.json");
    let script = format!(
        "{CURL} http://{allow}/; {CURL} --noproxy '*' http://{allow}/
         {CURL} --socks5-hostname 127.0.0.1:1080 --noproxy '' http://{allow}/
         {CURL} http://127.0.0.1:{port}/ || echo own; {CURL} --noproxy '*' http://127.0.0.1:{port}/ || echo own
         {CURL} -o /dev/null -w '%{{http_code}}\\n' http://evil.example.com/
         {CURL} https://evil.example.com/ || echo refused
         {CURL} --noproxy '*' http://192.0.2.7:{port}/ || echo nobody
         getent hosts evil.example.org || echo unknown"
    );
    let report_flag = report.to_str().unwrap();
    let ran = host.bulkhead([
        "run",
        "--allow",
        &allow,
        "--report",
        report_flag,
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let expected = "hello\nhello\nhello\nown\nown\n403\nrefused\nnobody\nunknown\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
    let said = "denied evil.example.com:443 (no rule); allow it with: --allow evil.example.com";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{}", ran.stderr);

    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let denied: Vec<_> = report["denied_hosts"].as_array().unwrap().iter().collect();
    assert!(denied.contains(&&Value::from("evil.example.com:443")), "{denied:?}");
    assert_eq!(report["egress"]["hosts"][0]["host"], "host.bulkhead.internal");
    let upheld = report["upheld"].as_array().unwrap();
    assert!(upheld.contains(&Value::from("EgressOnlyThroughProxy")), "{upheld:?}");
    assert!(!upheld.contains(&Value::from("NoNetwork")), "{upheld:?}");
}

#[test]
fn a_server_and_its_client_in_one_sandbox_meet_as_usual() {
    let host = Host::new();
    let script = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &
        for _ in $(seq 100); do
          curl -sf --max-time 5 http://localhost:8000/ >/dev/null && echo met && exit
          sleep 0.1
        done";
    let ran = host.bulkhead(["run", "--allow", "example.com", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "met\n"), "{}", ran.stderr);
}

#[test]
fn deny_wins_and_a_project_may_deny_but_not_allow() {
    let (host, port) = (Host::new(), server());
    let allow = format!("host.bulkhead.internal:{port}");
    host.project_file(&format!("[egress]\ndeny = ['{allow}']\n"));
    let get = format!("{CURL} -o /dev/null -w '%{{http_code}}' http://{allow}/");
    let run = ["run", "--allow", &allow, "--", "sh", "-c", &get];
    assert_eq!(host.bulkhead(run).stdout, "403");
    host.project_file(&format!("[egress]\nallow = ['{allow}']\n"));
    let ran = host.bulkhead(["run", "--", "sh", "-c", &get]);
    assert!(ran.stderr.contains("BH-E004") && ran.stderr.contains(&allow), "{}", ran.stderr);
    assert_eq!(host.bulkhead(["trust"]).code, Some(0));
    assert_eq!(host.bulkhead(["run", "--", "sh", "-c", &get]).stdout, "200");
}

#[test]
fn rules_that_nobody_would_enforce_are_refused() {
    let host = Host::new();
    let ran =
        host.bulkhead(["run", "--backend", "none", "--allow", "example.com", "--", "true"]);
    assert!(ran.stderr.contains("EgressOnlyThroughProxy"), "{}", ran.stderr);
    let ran = host.bulkhead(["run", "--net", "none", "--allow", "example.com", "--", "true"]);
    assert!(ran.stderr.contains("BH-E010"), "{}", ran.stderr);
    let ran = host.bulkhead(["run", "--secret", "NO_SUCH_KEY@example.com", "--", "true"]);
    assert!(ran.stderr.contains("BH-E024"), "{}", ran.stderr);
}

#[test]
fn policy_check_names_the_rule_and_who_wrote_it() {
    let host = Host::new();
    host.user("[egress]\nallow = ['npm', 'GET https://api.example.com/repos/me/**']\n");
    let check = |args: &[&str]| host.bulkhead(["policy", "check"].iter().chain(args));
    let ran = check(&["https://registry.npmjs.org/left-pad"]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stdout.contains("group npm") && ran.stdout.contains("config.toml:2"),
        "{ran:?}"
    );
    assert_eq!(check(&["https://api.example.com/repos/me/x"]).code, Some(0));
    assert_eq!(check(&["https://api.example.com/repos/you/x"]).code, Some(1));
    assert_eq!(
        check(&["https://api.example.com/repos/me/x", "--method", "POST"]).code,
        Some(1)
    );
    let ran = check(&["--allow", "example.org", "https://example.org"]);
    assert!(ran.stdout.contains("(--allow)"), "{ran:?}");
    let ran = check(&["http://169.254.169.254/latest"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let ran = host.bulkhead(["policy", "ls"]);
    assert!(ran.stdout.contains("allow registry.npmjs.org"), "{ran:?}");
}

#[test]
fn rules_change_while_a_sandbox_runs() {
    let (host, port) = (Host::new(), server());
    let target = format!("host.bulkhead.internal:{port}");
    let script = format!(
        "while [ ! -e stop ]; do {CURL} -o /dev/null -w '%{{http_code}}\\n' http://{target}/ >> codes; sleep 0.05; done"
    );
    let mut running = host
        .command(["run", "--name", "live", "--net", "proxy", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    let codes = || fs::read_to_string(host.project().join("codes")).unwrap_or_default();
    let until = |what: &str| {
        let late = Instant::now() + Duration::from_secs(30);
        while codes().lines().last() != Some(what) {
            assert!(Instant::now() < late, "waited for {what}: {}", codes());
            thread::sleep(Duration::from_millis(20));
        }
    };
    until("403");
    let ran = host.bulkhead(["policy", "allow", &target, "--sandbox", "live"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    until("200");
    assert_eq!(host.bulkhead(["policy", "check", "--sandbox", "live", &target]).code, Some(0));
    let ran = host.bulkhead(["policy", "rm", &target]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    until("403");
    fs::write(host.project().join("stop"), "").unwrap();
    assert!(running.wait().unwrap().success());
    let ran = host.bulkhead(["policy", "ls", "--sandbox", "live"]);
    assert!(ran.stderr.contains("BH-E060"), "{ran:?}");
    let log = host.bulkhead(["policy", "log", "--sandbox", "live"]);
    assert!(log.stdout.contains(&format!("live allowed {target}")), "{log:?}");
    let init = host.bulkhead(["policy", "init", "--from", "live"]);
    assert!(init.stdout.contains(&format!("\"{target}\"")), "{init:?}");
}

#[test]
fn what_has_changed_since_a_run_was_observed_is_shown() {
    let (host, port) = (Host::new(), server());
    let target = format!("host.bulkhead.internal:{port}");
    let first = format!("{CURL} http://{target}/");
    let ran =
        host.bulkhead(["run", "--name", "first", "--allow", &target, "--", "sh", "-c", &first]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = host.bulkhead(["policy", "init", "--from", "first", "--write"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(host.bulkhead(["trust"]).code, Some(0));
    let again = |script: &str| host.bulkhead(["run", "--", "sh", "-c", script]);
    let same = again(&first);
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "hello\n"), "{same:?}");
    assert!(!same.stderr.contains("drift"), "{same:?}");
    let other = again("curl -s http://new.example.com/");
    let drift = "drift since `first` was observed; never asked for: host.bulkhead.internal; \
                 newly denied: new.example.com";
    assert!(other.stderr.contains(drift), "{other:?}");
}

#[test]
fn a_killed_bulkhead_leaves_no_way_out() {
    let (host, port) = (Host::new(), server());
    let target = format!("host.bulkhead.internal:{port}");
    let script = format!("{CURL} http://{target}/; sleep 60");
    let mut running =
        host.command(["run", "--allow", &target, "--", "sh", "-c", &script]).spawn().unwrap();
    let mut heard = [0; 6];
    running.stdout.as_mut().unwrap().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello\n");
    running.kill().unwrap();
    running.wait().unwrap();
    // Whatever lived inside has ended with it; nothing holds the stream.
    let mut rest = String::new();
    running.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_secret_is_a_placeholder_inside_and_nowhere_on_the_host() {
    let host = Host::new();
    let canary = "sk-ant-api03-CANARY0123456789abcdefghijklmnop";
    let script = "env; cat /proc/self/environ /proc/1/environ 2>/dev/null; ls /run/bulkhead; cat /run/bulkhead/*";
    let mut command = host.command([
        "run",
        "--secret",
        "ANTHROPIC_API_KEY@api.anthropic.com",
        "--report",
        "report.json",
        "--events",
        "events.jsonl",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let output = command.env("ANTHROPIC_API_KEY", canary).output().unwrap();
    let inside = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(inside.contains("ANTHROPIC_API_KEY=sk-ant-"), "the shape is kept");
    assert!(inside.contains("ca-certificates.crt") && inside.contains("BEGIN CERTIFICATE"));
    assert!(!inside.contains("CANARY"), "the value got in");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("CANARY"));
    let found = host
        .program("/bin/grep")
        .args(["-rl", "CANARY", host.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn bulkheads_own_sockets_are_seen_by_no_sandbox() {
    let host = Host::new();
    let records = host.path().join("records");
    fs::create_dir_all(records.join("run/rules")).unwrap();
    let mount = format!("{}:/seen:ro", records.display());
    let ran = host.bulkhead(["run", "--mount", &mount, "--", "ls", "-A", "/seen/run"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let within = format!("{}:/seen:ro", records.join("run/rules").display());
    let ran = host.bulkhead(["run", "--mount", &within, "--", "true"]);
    assert!(ran.stderr.contains("BH-E012"), "{ran:?}");
}
