//! Agents by their names: what `plan` says of them, and the real ones against models of our own.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use bulkhead_testbed::{Dockerd, Setup};

use crate::host::{Host, Ran};

/// What must never be seen inside, nor be written down.
pub(crate) const KEY: &str = "sk-ant-api03-CANARY0123456789abcdefghijklmnop";

fn plan(host: &Host, variables: &[(&str, &str)], words: &[&str]) -> Ran {
    let mut command = host.command(["plan"].iter().chain(words));
    host.ended(command.envs(variables.iter().copied()))
}

/// The value of one row of a plan.
fn row<'a>(ran: &'a Ran, name: &str) -> Vec<&'a str> {
    let rows = ran.stdout.lines().filter_map(|line| line.split_once(' '));
    rows.filter(|(it, _)| *it == name).map(|(_, value)| value.trim()).collect()
}

#[test]
fn a_plan_shows_what_an_agent_gets() {
    let host = Host::new();
    host.write("home/.claude/settings.json", "{}");
    host.write("home/.claude/.credentials.json", "{}");
    let ran = plan(&host, &[("ANTHROPIC_API_KEY", KEY)], &["claude", "-p", "hi"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(row(&ran, "agent"), ["claude: Claude Code (built-in)"]);
    assert_eq!(row(&ran, "program"), ["claude --dangerously-skip-permissions -p hi"]);
    assert_eq!(row(&ran, "secret"), ["ANTHROPIC_API_KEY@api.anthropic.com"]);
    assert!(row(&ran, "reaches").concat().contains("api.anthropic.com"), "{ran:?}");
    let shares = row(&ran, "share").join("\n");
    assert!(shares.contains("/data/agents/claude/project-"), "{shares}");
    assert!(shares.contains(".claude/settings.json (ro)"), "{shares}");
    assert!(!shares.contains("credentials"), "{shares}");
    assert!(!ran.stdout.contains("CANARY") && !ran.stderr.contains("CANARY"));
}

#[test]
fn what_stands_behind_two_dashes_is_a_program_and_no_agent() {
    let host = Host::new();
    for words in [&["--", "claude"][..], &["./claude"], &["--", "codex", "--", "x"]] {
        let ran = plan(&host, &[], words);
        assert!(row(&ran, "agent").is_empty(), "{ran:?}");
        assert_eq!(row(&ran, "network"), ["none"], "{ran:?}");
    }
    let ran = plan(&host, &[], &["codex", "--", "x"]);
    let program = "codex --dangerously-bypass-approvals-and-sandbox -- x";
    assert_eq!(row(&ran, "program"), [program], "{ran:?}");
}

#[test]
fn what_the_user_and_the_machine_say_counts_more_than_a_profile() {
    let host = Host::new();
    let ran = plan(&host, &[], &["--net", "none", "claude"]);
    assert_eq!(row(&ran, "network"), ["none"]);
    assert!(ran.stderr.contains("cannot reach its model"), "{ran:?}");
    host.user("[ceiling]\nallow = ['example.com']\n[env]\nDISABLE_AUTOUPDATER = '0'\n");
    let ran = plan(&host, &[("ANTHROPIC_API_KEY", KEY)], &["claude"]);
    assert!(!row(&ran, "reaches").concat().contains("anthropic"), "{ran:?}");
}

#[test]
fn users_have_agents_of_their_own() {
    let host = Host::new();
    host.write(
        "home/.config/bulkhead/agents/mine.toml",
        "says = 'Mine'\nprogram = 'sh'\nflags = ['-e']\nallow = ['example.com']\n\
         secrets = ['MY_KEY@example.com']\nstate = '.mine'\nseed = { first = 'x' }\n[env]\nMINE = '~/.mine'\n",
    );
    let script = "echo $MINE; ls -A ~/.mine; echo x > ~/.mine/kept; env";
    let run = |key: &str| {
        let mut command = host.command(["run", "mine", "-c", script]);
        host.ended(command.env("MY_KEY", key))
    };
    let first = run(KEY);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(!first.stdout.lines().any(|it| it == "kept"), "{first:?}");
    assert!(first.stdout.lines().any(|it| it == "first"), "{first:?}");
    assert!(first.stdout.starts_with("[HOST]/home/.mine\n"), "{first:?}");
    assert!(first.stdout.contains("MY_KEY=sk-ant-") && !first.stdout.contains("CANARY"));
    // The next run finds what the first one kept; the caller's home has nothing of it.
    assert!(run(KEY).stdout.lines().any(|it| it == "kept"));
    assert!(!host.home().join(".mine").exists());
    let warned = host.bulkhead(["run", "-q", "mine", "-c", "true"]);
    assert_eq!(warned.code, Some(0), "{warned:?}");

    host.write("home/.config/bulkhead/agents/mine.toml", "says = 'Mine'\nprogram = 1\n");
    let ran = host.bulkhead(["run", "mine"]);
    assert!(ran.stderr.contains("BH-E001") && ran.stderr.contains("mine.toml"), "{ran:?}");
}

#[test]
fn an_agent_that_is_not_installed_says_how_it_is() {
    let host = Host::new();
    let mut command = host.command(["run", "claude"]);
    let ran = host.ended(command.env("PATH", "/nowhere").env("ANTHROPIC_API_KEY", KEY));
    // Some machine may have it where every sandbox sees it.
    if ran.code == Some(127) {
        assert!(ran.stderr.contains("npm install --global"), "{ran:?}");
    }
}

/// The APIs of three models, behind a proxy, and an authority that says whose they are.
pub(crate) struct Models {
    server: Child,
    port: u16,
    dir: PathBuf,
}

const HOSTS: [&str; 3] =
    ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"];

impl Models {
    pub(crate) fn start(host: &Host) -> Self {
        let dir = host.path().join("models");
        fs::create_dir(&dir).unwrap();
        let names = HOSTS.map(|it| format!("DNS:{it}")).join(",");
        let certify = format!(
            "cd {} && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
               -keyout ca.key -out ca.pem && \
             openssl req -newkey rsa:2048 -nodes -subj /CN=models -keyout key.pem -out request.pem && \
             printf 'subjectAltName={names}\nbasicConstraints=CA:FALSE\n' > extensions && \
             openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
               -extfile extensions -out models.pem",
            dir.display()
        );
        let made = host.program("/bin/sh").args(["-c", &certify]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agents/models.py");
        let mut server = host.program("/usr/bin/python3");
        server
            .arg(script)
            .arg(host.project())
            .arg(dir.join("models.pem"))
            .arg(dir.join("key.pem"));
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { server, port, dir }
    }

    /// Lets Bulkhead reach the models, as it would reach them in a company with a proxy.
    pub(crate) fn lead(&self, command: &mut Command) {
        command
            .env("HTTPS_PROXY", format!("http://127.0.0.1:{}", self.port))
            .env("NODE_EXTRA_CA_CERTS", self.dir.join("ca.pem"));
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        self.server.wait().map(drop).unwrap_or_default();
    }
}

/// A real agent, and what its model hears of it.
struct Agent<'a> {
    words: &'a [&'a str],
    variable: &'a str,
    heard: &'a str,
}

/// Where real agents are.
fn agents() -> PathBuf {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks/agents");
    agents.canonicalize().expect("scripts/install-agents.sh installs them")
}

/// By which they are found.
fn path(agents: &Path) -> String {
    format!("{}/node_modules/.bin:/usr/bin:/bin", agents.display())
}

/// Runs an agent on a project, natively; it must write the file that its model asks for.
fn works(agent: &Agent<'_>) -> Host {
    works_where(agent, &[], |command| command)
}

/// The same where `flags` say, with what `change` adds to the command.
fn works_where(
    agent: &Agent<'_>,
    flags: &[&str],
    change: impl FnOnce(&mut Command) -> &mut Command,
) -> Host {
    let agents = agents();
    let host = Host::new();
    let models = Models::start(&host);
    host.write(
        "home/.config/bulkhead/config.toml",
        &format!("mounts = ['{}:ro']\n", agents.display()),
    );
    let run = [
        "run",
        "--report",
        "report.json",
        "--events",
        "events.jsonl",
        "--budget",
        "*=1000000tokens",
    ];
    let mut command = host.command(run.iter().chain(flags).chain(agent.words));
    models.lead(&mut command);
    let ran = host.ended(change(command.env("PATH", path(&agents)).env(agent.variable, KEY)));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("It is done."), "{ran:?}");
    let written = fs::read_to_string(host.project().join("hello.txt")).unwrap();
    assert_eq!(written, "written by the agent\n");
    let asked = fs::read_to_string(host.path().join("heard")).unwrap();
    let right = asked.lines().filter(|it| it.starts_with(agent.heard) && it.ends_with(KEY));
    assert!(2 <= right.count(), "{asked}");
    assert!(!ran.stdout.contains("CANARY") && !ran.stderr.contains("CANARY"));
    fs::remove_file(host.path().join("heard")).unwrap();
    let found = host.program("/bin/grep").arg("-rla").arg("CANARY").arg(host.path()).output();
    assert_eq!(String::from_utf8_lossy(&found.unwrap().stdout), "");
    let report = fs::read_to_string(host.project().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let tokens = report["egress"]["budgets"][0]["tokens"].as_u64().unwrap();
    assert!(240 <= tokens, "{report}");
    host
}

const CLAUDE: Agent<'_> = Agent {
    words: &["claude", "-p", "write the file"],
    variable: "ANTHROPIC_API_KEY",
    heard: "POST api.anthropic.com/v1/messages",
};

/// Its second tool call has looked for the key from inside.
fn has_not_seen_its_key(host: &Host) {
    let inside = fs::read(host.project().join("inside")).unwrap();
    let inside = String::from_utf8_lossy(&inside);
    assert!(inside.contains("ANTHROPIC_API_KEY=sk-ant-") && inside.ends_with("searched\n"));
    assert!(!inside.contains("CANARY"));
    assert_eq!(fs::read_to_string(host.project().join("found")).unwrap(), "");
}

#[test]
#[ignore = "needs what scripts/install-agents.sh installs"]
fn claude_code_works_on_a_project_and_never_sees_its_key() {
    has_not_seen_its_key(&works(&CLAUDE));
}

/// Its image has what a root filesystem has besides programs; those are the host's own.
#[test]
#[ignore = "starts a Docker daemon, as root, and needs what scripts/install-agents.sh installs"]
fn claude_code_works_in_a_container_and_never_sees_its_key() {
    let dockerd = Dockerd::start(Setup::new("tests-of-agents")).unwrap();
    dockerd.furnish_without_programs().unwrap();
    let path = format!("PATH={}", path(&agents()));
    let flags = ["--backend", "docker", "--mount", "/usr:/usr:ro", "--env", &path];
    let host =
        works_where(&CLAUDE, &flags, |command| command.env("DOCKER_HOST", dockerd.address()));
    has_not_seen_its_key(&host);
    let report = fs::read_to_string(host.project().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["backend"], "docker");
}

#[test]
#[ignore = "needs what scripts/install-agents.sh --all installs"]
fn codex_works_on_a_project_and_never_sees_its_key() {
    drop(works(&Agent {
        words: &[
            "codex",
            "exec",
            "-m",
            "gpt-5-codex",
            "--skip-git-repo-check",
            "write the file",
        ],
        variable: "OPENAI_API_KEY",
        heard: "POST api.openai.com/v1/responses",
    }));
}

#[test]
#[ignore = "needs what scripts/install-agents.sh --all installs"]
fn gemini_works_on_a_project_and_never_sees_its_key() {
    drop(works(&Agent {
        words: &["gemini", "-m", "gemini-2.5-flash", "-p", "write the file"],
        variable: "GEMINI_API_KEY",
        heard: "POST generativelanguage.googleapis.com/v1beta/models/",
    }));
}
