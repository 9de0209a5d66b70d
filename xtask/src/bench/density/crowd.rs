//! Many sandboxes that do nothing.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use crate::account::Account;
use crate::processes::{self, Identity, Process, Processes};
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// How long all of them together may take to start.
const TO_START: Duration = Duration::from_mins(2);
/// How long they may take to end before we go on and list what is left.
const TO_END: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// The name of the program that idles, as the kernel shows it.
const IDLER: &str = "sleep";

/// How to start one.
pub(super) struct Crowd {
    bulkhead: PathBuf,
    account: Option<Account>,
    home: PathBuf,
    workspace: PathBuf,
    messages: File,
    messages_at: PathBuf,
}

/// Those that run. `Drop` kills whatever of them did not end.
pub(super) struct Idle {
    supervisors: Vec<Child>,
    took_to_start: Duration,
    available_before: u64,
    /// Every process of every sandbox, once all of them ran.
    members: BTreeSet<Identity>,
}

/// KiB per sandbox, on average.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Weights {
    /// Supervisor, guest and whatever else is not the program, by PSS.
    pub(super) ours: f64,
    pub(super) supervisor: f64,
    pub(super) program: f64,
    /// By how much the machine's available memory shrank: with the kernel's own, and with
    /// whatever else happened meanwhile.
    pub(super) of_the_machine: f64,
}

impl Crowd {
    pub(super) fn new(
        bulkhead: PathBuf,
        scratch: &Scratch,
        account: Option<Account>,
    ) -> Result<Self, Trouble> {
        let home = scratch.dir_of("home", account.as_ref())?;
        let workspace = scratch.dir_of("work", account.as_ref())?;
        let messages_at = scratch.path().join("messages");
        let messages = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&messages_at)
            .or_trouble(|| format!("could not make `{}`", messages_at.display()))?;
        Ok(Self { bulkhead, account, home, workspace, messages, messages_at })
    }

    /// Starts `count` at once and waits until the program runs in each of them.
    pub(super) fn gather(&self, count: u32) -> Result<Idle, Trouble> {
        let mut idle = Idle {
            supervisors: Vec::new(),
            took_to_start: Duration::ZERO,
            available_before: available_kib(),
            members: BTreeSet::new(),
        };
        let before = Instant::now();
        for _ in 0..count {
            idle.supervisors.push(self.start_one()?);
        }
        while !idle.all_run()? {
            if let Some(pid) = idle.first_that_ended()? {
                return Err(Trouble::new(format!(
                    "sandbox {pid} ended: {}",
                    self.last_message()
                )));
            }
            if before.elapsed() > TO_START {
                return Err(Trouble::new(format!(
                    "not all of {count} run: {}",
                    self.last_message()
                )));
            }
            thread::sleep(PAUSE);
        }
        idle.took_to_start = before.elapsed();
        Ok(idle)
    }

    fn start_one(&self) -> Result<Child, Trouble> {
        let unstartable = || format!("could not start `{}`", self.bulkhead.display());
        let mut command = programs::command(&self.bulkhead);
        command.args(["run", "--", IDLER, "1000"]).current_dir(&self.workspace).env_clear();
        command.env("PATH", programs::system_path()).env("HOME", &self.home);
        command.env("BULKHEAD_HOME", self.home.join("bulkhead"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(self.messages.try_clone().or_trouble(unstartable)?);
        if let Some(account) = &self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command.spawn().or_trouble(unstartable)
    }

    fn last_message(&self) -> String {
        programs::last_line(&fs::read_to_string(&self.messages_at).unwrap_or_default())
    }
}

impl Idle {
    pub(super) fn took_to_start(&self) -> Duration {
        self.took_to_start
    }

    fn all_run(&mut self) -> Result<bool, Trouble> {
        let all = Processes::now()?;
        let mut members = BTreeSet::new();
        for supervisor in &self.supervisors {
            let tree = all.tree_of(supervisor.id());
            if !tree.iter().any(|it| it.name == IDLER) {
                return Ok(false);
            }
            members.extend(tree.iter().map(|it| it.identity));
        }
        self.members = members;
        Ok(true)
    }

    fn first_that_ended(&mut self) -> Result<Option<u32>, Trouble> {
        for child in &mut self.supervisors {
            let unknown = || "could not ask for a sandbox".to_owned();
            if child.try_wait().or_trouble(unknown)?.is_some() {
                return Ok(Some(child.id()));
            }
        }
        Ok(None)
    }

    /// Weighs every process of every sandbox.
    pub(super) fn weigh(&self) -> Result<Weights, Trouble> {
        let available = available_kib();
        let all = Processes::now()?;
        let (mut ours, mut supervisor, mut program) = (0, 0, 0);
        for child in &self.supervisors {
            for process in all.tree_of(child.id()) {
                let kib = weight(process)?;
                if process.name == IDLER {
                    program += kib;
                } else {
                    ours += kib;
                }
                if process.identity.pid == child.id() {
                    supervisor += kib;
                }
            }
        }
        let count = f64::from(u32::try_from(self.supervisors.len()).unwrap_or(u32::MAX));
        let each = |kib: u64| f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / count;
        Ok(Weights {
            ours: each(ours),
            supervisor: each(supervisor),
            program: each(program),
            of_the_machine: each(self.available_before.saturating_sub(available)),
        })
    }

    /// Asks every supervisor to end and waits until no process of any sandbox exists, or until
    /// it is clear that some will stay.
    pub(super) fn end(&mut self) -> Result<Duration, Trouble> {
        let before = Instant::now();
        for child in &self.supervisors {
            processes::signal(child.id(), Signal::TERM)?;
        }
        for child in &mut self.supervisors {
            wait_until(child, before + TO_END)?;
        }
        while !self.left()?.is_empty() && before.elapsed() < TO_END {
            thread::sleep(PAUSE);
        }
        Ok(before.elapsed())
    }

    /// The processes of the sandboxes that still exist.
    fn left(&self) -> Result<Vec<Identity>, Trouble> {
        let alive = Processes::now()?.alive();
        Ok(self.members.intersection(&alive).copied().collect())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for child in &mut self.supervisors {
            drop(child.kill());
            drop(child.wait());
        }
        for process in self.left().unwrap_or_default() {
            drop(processes::signal(process.pid, Signal::KILL));
        }
    }
}

/// Reaps a supervisor; one that does not end by itself is left to `Drop`.
fn wait_until(child: &mut Child, deadline: Instant) -> Result<(), Trouble> {
    let unknown = || "could not ask for a sandbox".to_owned();
    while child.try_wait().or_trouble(unknown)?.is_none() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn weight(process: &Process) -> Result<u64, Trouble> {
    let pid = process.identity.pid;
    processes::proportional_kib(pid).ok_or_else(|| {
        Trouble::new(format!("could not weigh process {pid} `{}`", process.name))
    })
}

fn available_kib() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
