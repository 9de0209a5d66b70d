//! The directory in which jobs are done, on the host or inside.

use std::fmt;
use std::fs;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::work::jobs::Job;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// Where a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Inside,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Host => "on the host",
            Self::Inside => "inside",
        })
    }
}

/// What a job took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    /// Processor time, which neighbours on the machine disturb less.
    pub(super) cpu: Duration,
}

/// Both sides work in the same directory, which is made anew for each turn.
pub(super) struct Room {
    bulkhead: PathBuf,
    workspace: PathBuf,
    state: PathBuf,
    /// Removes the two directories above when the room is closed.
    _scratch: Scratch,
}

impl Room {
    pub(super) fn open(bulkhead: PathBuf) -> Result<Self, Trouble> {
        let scratch = Scratch::new()?;
        let state = scratch.dir("state")?;
        Ok(Self { bulkhead, workspace: scratch.path().join("work"), state, _scratch: scratch })
    }

    /// What the job took, or why it failed. Only the job itself counts.
    pub(super) fn perform(
        &self,
        job: &Job,
        side: Side,
    ) -> Result<Result<Cost, String>, Trouble> {
        let unmade = || format!("could not prepare `{}`", job.name);
        if self.workspace.exists() {
            fs::remove_dir_all(&self.workspace).or_trouble(unmade)?;
        }
        fs::create_dir(&self.workspace).or_trouble(unmade)?;
        let script = match (job.prepare)(&self.workspace)? {
            Ok(script) => script,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut messages = tempfile::tempfile().or_trouble(unmade)?;
        let mut command = self.command(&script, side);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(messages.try_clone().or_trouble(unmade)?);

        let cpu_before = cpu_of_children();
        let before = Instant::now();
        let status =
            command.status().or_trouble(|| format!("could not start `{}`", job.name))?;
        let wall = before.elapsed();
        let cpu = cpu_of_children().saturating_sub(cpu_before);

        if status.success() {
            return Ok(Ok(Cost { wall, cpu }));
        }
        let mut text = String::new();
        messages.rewind().or_trouble(unmade)?;
        messages.read_to_string(&mut text).or_trouble(unmade)?;
        Ok(Err(format!("{status}: {}", programs::last_line(&text))))
    }

    /// The same shell, script, directory, search path and home on both sides.
    fn command(&self, script: &str, side: Side) -> Command {
        let mut command = match side {
            Side::Host => programs::command("/bin/sh"),
            Side::Inside => {
                let mut command = programs::command(&self.bulkhead);
                command.args(["run", "--net", "none", "--", "/bin/sh"]);
                command
            }
        };
        command.args(["-e", "-c", script]).current_dir(&self.workspace).env_clear();
        command.env("PATH", programs::caller_path()).env("HOME", programs::caller_home());
        command.env("BULKHEAD_HOME", &self.state);
        command
    }
}

/// The processor time of every descendant that has been waited for.
fn cpu_of_children() -> Duration {
    // What `sysconf(_SC_CLK_TCK)` answers on every Linux that Rust runs on.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // `cutime` and `cstime` are the 16th and 17th field; two stand before the bracket.
    let fields = after_name.split_whitespace().skip(13).take(2);
    fields.filter_map(|it| it.parse::<u32>().ok()).map(|ticks| TICK * ticks).sum()
}
