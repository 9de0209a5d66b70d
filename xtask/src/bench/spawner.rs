//! Starting a contestant and timing it.
//!
//! Every contestant is started by a small process of ours that already has the right identity
//! and mount namespace. So all of them go through the same cheap `posix_spawn`: changing the
//! user in the started process would make std fork instead, and cost only those who need it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// Longer than any contestant needs; one that hangs is ended and counted as failed.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A command line with everything that it depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) dir: PathBuf,
}

/// What becomes of a contestant's messages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Messages {
    /// Nobody reads them, and nobody pays for them.
    Dropped,
    /// They are wanted in case it fails.
    Kept,
}

#[derive(Serialize, Deserialize)]
struct Order {
    invocation: Invocation,
    messages: Messages,
}

/// How a start went.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    nanos: u64,
    /// Why it does not count; `None` if it ended with 0.
    pub(crate) failure: Option<String>,
}

impl Run {
    /// From before the start until after the end was seen.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

/// Where the starting process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// As we are.
    Host,
    /// In a mount namespace without this mount of the cgroup v2 tree.
    Without { unified: PathBuf },
    /// As an ordinary user.
    As(Account),
}

/// A process that starts others on request; it ends when this is dropped.
pub(crate) struct Spawner {
    child: Child,
    orders: Option<ChildStdin>,
    runs: BufReader<ChildStdout>,
}

impl Spawner {
    pub(crate) fn on(stage: &Stage) -> Result<Self, Trouble> {
        let mut child = itself(stage)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .or_trouble(|| format!("could not start the spawner for {stage:?}"))?;
        let orders = child.stdin.take();
        let runs = child.stdout.take().map(BufReader::new);
        let runs = runs.ok_or_else(|| Trouble::new("the spawner has no stdout"))?;
        Ok(Self { child, orders, runs })
    }

    /// Starts `invocation` once and waits for its end.
    pub(crate) fn run(
        &mut self,
        invocation: &Invocation,
        messages: Messages,
    ) -> Result<Run, Trouble> {
        let gone = || "the spawner went away".to_owned();
        let order = Order { invocation: invocation.clone(), messages };
        let mut line = serde_json::to_string(&order).or_trouble(gone)?;
        line.push('\n');
        let orders = self.orders.as_mut().ok_or_else(|| Trouble::new(gone()))?;
        orders.write_all(line.as_bytes()).or_trouble(gone)?;
        let mut answer = String::new();
        self.runs.read_line(&mut answer).or_trouble(gone)?;
        serde_json::from_str(&answer).or_trouble(gone)
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // The end of its orders is the end of its work.
        drop(self.orders.take());
        drop(self.child.wait());
    }
}

fn itself(stage: &Stage) -> Result<Command, Trouble> {
    let own = std::env::current_exe().or_trouble(|| "who am I".to_owned())?;
    let command = match stage {
        Stage::Host => {
            let mut command = programs::command(own);
            command.args(["bench", "spawner"]);
            command
        }
        Stage::As(account) => {
            // By this name, because the user may not be able to walk to the real one.
            let mut command = programs::command("/proc/self/exe");
            command.args(["bench", "spawner"]).uid(account.uid).gid(account.gid);
            command.current_dir("/");
            command
        }
        Stage::Without { unified } => {
            let mut command = programs::command("unshare");
            let script = r#"umount "$1" && exec "$2" bench spawner"#;
            command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
            command.arg(unified).arg(own);
            command
        }
    };
    Ok(command)
}

/// The other side: starts what stdin says until there is no more.
pub(crate) fn serve() -> Result<(), Trouble> {
    let broken = || "the orders cannot be read".to_owned();
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let order: Order =
            serde_json::from_str(&line.or_trouble(broken)?).or_trouble(broken)?;
        let run = start(&order)
            .unwrap_or_else(|trouble| Run { nanos: 0, failure: Some(trouble.sentence()) });
        let answer = serde_json::to_string(&run).or_trouble(broken)?;
        writeln!(stdout, "{answer}").or_trouble(broken)?;
    }
    Ok(())
}

fn start(order: &Order) -> Result<Run, Trouble> {
    let Order { invocation, messages } = order;
    let name = invocation.program.display().to_string();
    let unstartable = || format!("could not start `{name}`");
    let mut command = programs::command(&invocation.program);
    command.args(&invocation.args).env_clear().envs(invocation.env.iter().cloned());
    command.current_dir(&invocation.dir).stdin(Stdio::null()).stdout(Stdio::null());
    // A file and not a pipe: a helper that outlives the contestant would hold a pipe open.
    let mut kept = match messages {
        Messages::Dropped => None,
        Messages::Kept => Some(tempfile::tempfile().or_trouble(unstartable)?),
    };
    command.stderr(match &kept {
        None => Stdio::null(),
        Some(file) => file.try_clone().or_trouble(unstartable)?.into(),
    });

    let before = Instant::now();
    let mut child = command.spawn().or_trouble(unstartable)?;
    let status = wait(&mut child).or_trouble(|| format!("could not wait for `{name}`"))?;
    let nanos = u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX);

    let failure = reason(status).map(|reason| format!("{reason}{}", said(kept.as_mut())));
    Ok(Run { nanos, failure })
}

/// Waits, but not for ever; `None` if patience ran out and the contestant was killed.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        if poll(&mut ended, Some(&PATIENCE))? == 0 {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
    }
    child.wait().map(Some)
}

fn reason(status: Option<ExitStatus>) -> Option<String> {
    let Some(status) = status else {
        return Some(format!("did not end in {} s", PATIENCE.tv_sec));
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or_default())),
    }
}

fn said(kept: Option<&mut File>) -> String {
    const LONGEST: u64 = 64 * 1024;
    let Some(file) = kept else { return String::new() };
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| file.take(LONGEST).read_to_end(&mut text));
    match read {
        Ok(_) => format!(": {}", programs::last_line(&String::from_utf8_lossy(&text))),
        Err(error) => format!(": its messages could not be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Run {
        let invocation = Invocation {
            program: "/bin/sh".into(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: vec![("WORD".to_owned(), "heard".to_owned())],
            dir: "/".into(),
        };
        start(&Order { invocation, messages: Messages::Kept }).unwrap()
    }

    #[test]
    fn a_program_that_ends_well_has_a_duration_and_no_failure() {
        let run = run("sleep 0.05; test \"$WORD\" = heard");
        assert_eq!(run.failure, None);
        assert!(run.took() >= Duration::from_millis(50));
    }

    #[test]
    fn a_failure_carries_the_last_thing_said() {
        let failed = run("echo first >&2; echo \"no $WORD\" >&2; exit 3");
        assert_eq!(failed.failure.unwrap(), "exit code 3: no heard");
        assert_eq!(run("kill -TERM $$").failure.unwrap(), "signal 15: no message");
    }
}
