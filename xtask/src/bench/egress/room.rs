//! A sandbox in which the client runs, and what its supervisor weighs.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::client::{Answer, Job, Order, Way};
use super::world::{NAME, World};
use crate::processes;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// More than the crowd needs.
const CONNECTIONS: &str = "4096";

/// A client that waits for orders.
pub(super) struct Client {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// In a sandbox with an open network, so that whatever a sandbox costs a program it costs this
    /// one too. It sees `shown` besides.
    pub(super) fn open(bulkhead: &Path, dir: &Path, shown: &Path) -> Result<Self, Trouble> {
        let mut command = sandbox(bulkhead, dir);
        command.args(["--net", "open", "--mount"]).arg(format!("{0}:{0}:ro", shown.display()));
        Self::start(&mut command)
    }

    /// In a sandbox that may reach the server, and whose gateway reads what goes to its port for
    /// TLS.
    pub(super) fn gated(bulkhead: &Path, dir: &Path, world: &World) -> Result<Self, Trouble> {
        let mut command = sandbox(bulkhead, dir);
        command
            .env("BENCH_KEY", "sk-0123456789abcdefghijklmnopqrstuvwxyz")
            .env("NODE_EXTRA_CA_CERTS", &world.authority)
            .args(["--max-connections", CONNECTIONS])
            .args(["--allow", &format!("tcp://{NAME}:{}", world.plain)])
            .args(["--allow", &format!("https://{NAME}:{}", world.tls)])
            .args(["--secret", &format!("BENCH_KEY@{NAME}")]);
        Self::start(&mut command)
    }

    fn start(command: &mut Command) -> Result<Self, Trouble> {
        let failed = || "could not start the client".to_owned();
        let own = std::env::current_exe().or_trouble(|| "who am I".to_owned())?;
        let mut process = command
            .arg("--mount")
            .arg(format!("{}:/client:ro", own.display()))
            .args(["--", "/client", "bench", "egress-client"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .or_trouble(failed)?;
        let orders = process.stdin.take();
        let answers = process.stdout.take().map(BufReader::new);
        let answers = answers.ok_or_else(|| Trouble::new("the client has no stdout"))?;
        Ok(Self { process, orders, answers })
    }

    /// Has the client do something.
    pub(super) fn order(&mut self, way: &Way, job: Job) -> Result<Answer, Trouble> {
        let gone = || "the client went away".to_owned();
        let order = Order { way: way.clone(), job };
        let mut line = serde_json::to_string(&order).or_trouble(gone)?;
        line.push('\n');
        let orders = self.orders.as_mut().ok_or_else(|| Trouble::new(gone()))?;
        orders.write_all(line.as_bytes()).or_trouble(gone)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).or_trouble(gone)?;
        match serde_json::from_str(&answer).or_trouble(gone)? {
            Answer::Failed(why) => Err(Trouble::new(why)),
            answer @ (Answer::Took(_) | Answer::Flowed(..) | Answer::Served(_)) => Ok(answer),
        }
    }

    /// What the process that was started weighs: for a sandbox, its supervisor with the gateway.
    pub(super) fn kib(&self) -> Option<u64> {
        processes::proportional_kib(self.process.id())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its orders is the end of its work.
        drop(self.orders.take());
        drop(self.process.wait());
    }
}

/// A sandbox for the client, but for its network.
fn sandbox(bulkhead: &Path, dir: &Path) -> Command {
    let mut command = programs::command(bulkhead);
    command
        .env_clear()
        .env("PATH", programs::system_path())
        .env("HOME", dir)
        .env("BULKHEAD_HOME", dir.join("records"))
        .current_dir(dir)
        .args(["run", "--quiet", "--interactive", "--timeout", "none", "--files", "8192"])
        .arg("--no-workspace");
    command
}
