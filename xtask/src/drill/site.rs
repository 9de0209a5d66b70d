//! Where a drill takes place: rooms, state and workspace of its own.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Deserialize;

use crate::drill::Size;
use crate::processes::{self, Processes};
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// No command may take longer, whatever was done to it.
const HANG: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(5);

/// The place, of which nothing remains.
pub(super) struct Site {
    bulkhead: PathBuf,
    scratch: Scratch,
    home: PathBuf,
    work: PathBuf,
    size: Size,
}

/// A room as `bulkhead ls` shows it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Room {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) alive: bool,
    pub(super) state: String,
}

#[derive(Deserialize)]
struct Rooms {
    rooms: Vec<Room>,
}

/// How a command ended and what it said.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Site {
    pub(super) fn new(bulkhead: PathBuf, size: Size) -> Result<Self, Trouble> {
        let scratch = Scratch::new()?;
        let (home, work) = (scratch.dir("home")?, scratch.dir("work")?);
        Ok(Self { bulkhead, scratch, home, work, size })
    }

    pub(super) fn bulkhead(&self) -> &Path {
        &self.bulkhead
    }

    /// A directory for whatever a drill needs.
    pub(super) fn dir(&self, name: &str) -> Result<PathBuf, Trouble> {
        self.scratch.dir(name)
    }

    /// Where Bulkhead keeps everything.
    pub(super) fn bulkhead_home(&self) -> PathBuf {
        self.home.join("bulkhead")
    }

    /// What stays on the disk.
    pub(super) fn state(&self) -> PathBuf {
        self.bulkhead_home().join("state")
    }

    /// Where the journal of rooms is.
    pub(super) fn journal(&self) -> PathBuf {
        self.state().join("rooms")
    }

    /// What is gone after a reboot.
    pub(super) fn runtime(&self) -> PathBuf {
        self.home.join("bulkhead/run")
    }

    /// Where a room could leave a file.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        let system = ["/run/bulkhead", "/var/lib/bulkhead", "/run/netns"];
        system.into_iter().map(PathBuf::from).chain([self.scratch.path().to_owned()]).collect()
    }

    /// The smaller number for a quick drill.
    pub(super) fn count(&self, quick: u32, whole: u32) -> u32 {
        match self.size {
            Size::Quick => quick,
            Size::Whole => whole,
        }
    }

    /// `bulkhead` with `args`, not started.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = programs::command(&self.bulkhead);
        command.args(args);
        self.dress(&mut command);
        command
    }

    /// Gives a command the surroundings of this place.
    pub(super) fn dress(&self, command: &mut Command) {
        command.current_dir(&self.work).env_clear();
        command.env("PATH", programs::system_path()).env("HOME", &self.home);
        command.env("BULKHEAD_HOME", self.home.join("bulkhead"));
        command.stdin(Stdio::null());
    }

    /// What `bulkhead` with `args` says; it must succeed.
    pub(super) fn say(&self, args: &[&str]) -> Result<String, Trouble> {
        succeeded(args, ended(&mut self.command(args))?)
    }

    /// Every room that the journal knows.
    pub(super) fn rooms(&self) -> Result<Vec<Room>, Trouble> {
        let text = self.say(&["ls", "--all", "--json"])?;
        let rooms: Rooms = serde_json::from_str(&text)
            .or_trouble(|| "`bulkhead ls --json` did not write JSON".to_owned())?;
        Ok(rooms.rooms)
    }

    /// The room called `name`.
    pub(super) fn room(&self, name: &str) -> Result<Room, Trouble> {
        let rooms = self.rooms()?;
        let found = rooms.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| Trouble::new(format!("there is no room `{name}`")))
    }

    /// The process that holds the lock of a room, which is open in no other.
    pub(super) fn shim(&self, room: &Room) -> Result<u32, Trouble> {
        let lock = self.journal().join(&room.id);
        let holds = |pid: u32| {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
            entries.flatten().any(|it| fs::read_link(it.path()).is_ok_and(|it| it == lock))
        };
        let processes = Processes::now()?;
        let found = processes.iter().map(|it| it.identity.pid).find(|pid| holds(*pid));
        found.ok_or_else(|| Trouble::new(format!("nobody holds `{}`", room.name)))
    }

    /// Makes `count` rooms, some at a time, called `PREFIX-0` and so on.
    pub(super) fn create(&self, prefix: &str, count: u32) -> Result<Vec<Duration>, Trouble> {
        let names: Vec<_> = (0..count).map(|at| format!("{prefix}-{at}")).collect();
        side_by_side(&names, |name| self.say(&["create", "--name", name]).map(drop))
    }

    /// Asks the server of this place to stop.
    pub(super) fn stop(&self, server: &mut Child) -> Result<(), Trouble> {
        stop(server, &self.runtime().join("bulkhead.sock"))
    }

    /// Does everything once that leaves a file or a directory behind for the next time.
    pub(super) fn warm_up(&self) -> Result<(), Trouble> {
        self.run_once()?;
        self.say(&["create", "--name", "first"])?;
        self.say(&["checkpoint", "create", "first", "first"])?;
        self.say(&["pool", "fill", "--size", "1"])?;
        self.forget_all()
    }

    /// Runs a program, and waits until whoever stayed behind has written that down. On a host where
    /// nobody may, they do not, and it is not waited for long.
    pub(super) fn run_once(&self) -> Result<(), Trouble> {
        self.say(&["run", "--", "true"])?;
        let (note, start) = (self.runtime().join("behind"), Instant::now());
        while !note.exists() && start.elapsed() < Duration::from_secs(1) {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends and forgets every room, those that nobody has, and every checkpoint.
    pub(super) fn forget_all(&self) -> Result<(), Trouble> {
        let names: Vec<_> = self.rooms()?.into_iter().map(|it| it.id).collect();
        side_by_side(&names, |id| self.say(&["rm", "--force", id]).map(drop))?;
        for checkpoint in self.say(&["checkpoint", "ls", "-q"])?.lines() {
            self.say(&["checkpoint", "rm", checkpoint])?;
        }
        self.say(&["pool", "drain"])?;
        Ok(())
    }
}

/// Asks a server to stop, as a service manager would; its socket goes with it.
pub(super) fn stop(server: &mut Child, socket: &Path) -> Result<(), Trouble> {
    processes::signal(server.id(), Signal::TERM)?;
    let status = in_time(server)?;
    must(status.success(), || format!("the server ended with {status}"))?;
    must(!socket.exists(), || "the server left its socket behind".to_owned())
}

/// Runs a command to its end, which must come soon.
pub(super) fn ended(command: &mut Command) -> Result<Ended, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let unstartable = || format!("could not start `{name}`");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .or_trouble(unstartable)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(|| text(stdout));
        let stderr = scope.spawn(|| text(stderr));
        let status = in_time(&mut child);
        let heard = |it: Result<String, _>| it.unwrap_or_default();
        let (stdout, stderr) = (heard(stdout.join()), heard(stderr.join()));
        Ok(Ended { status: status?, stdout, stderr })
    })
}

/// Why a command did not do it; it must say so like any other refusal.
pub(super) fn refused(command: &mut Command) -> Result<String, Trouble> {
    let ended = ended(command)?;
    let said = ended.stderr.trim().to_owned();
    match ended.status.code() {
        Some(1..=127) if !said.contains("panicked") && !said.is_empty() => Ok(said),
        Some(_) | None => Err(Trouble::new(format!(
            "a refusal was due, and it ended with {}: {said}",
            ended.status
        ))),
    }
}

/// Does `what` to each, four at a time, and says how long each took.
pub(super) fn side_by_side(
    names: &[String],
    what: impl Fn(&str) -> Result<(), Trouble> + Sync,
) -> Result<Vec<Duration>, Trouble> {
    const AT_ONCE: usize = 4;
    let timed = |name: &String| {
        let before = Instant::now();
        what(name).map(|()| before.elapsed())
    };
    let part = names.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = names
            .chunks(part)
            .map(|names| scope.spawn(|| names.iter().map(timed).collect::<Vec<_>>()))
            .collect();
        let done = parts.into_iter().flat_map(|it| match it.join() {
            Ok(results) => results,
            Err(_) => vec![Err(Trouble::new("a thread of the drill died"))],
        });
        done.collect()
    })
}

fn text(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What came before a failure is still worth showing.
        drop(pipe.take(1 << 20).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for a child; one that hangs is killed, and that is a failure.
pub(super) fn in_time(child: &mut Child) -> Result<ExitStatus, Trouble> {
    let deadline = Instant::now() + HANG;
    loop {
        let status = child.try_wait().or_trouble(|| "could not wait".to_owned())?;
        if let Some(status) = status {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            drop(child.kill());
            drop(child.wait());
            return Err(Trouble::new(format!("a command hung for {} s", HANG.as_secs())));
        }
        thread::sleep(PAUSE);
    }
}

fn succeeded(args: &[&str], ended: Ended) -> Result<String, Trouble> {
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let said = programs::last_line(&ended.stderr);
    Err(Trouble::new(format!(
        "`bulkhead {}` ended with {}: {said}",
        args.join(" "),
        ended.status
    )))
}

/// Waits until `is` holds; `what` names it where it does not in time.
pub(super) fn until(
    what: &str,
    patience: Duration,
    is: impl Fn() -> Result<bool, Trouble>,
) -> Result<Duration, Trouble> {
    let before = Instant::now();
    while !is()? {
        if before.elapsed() > patience {
            let seconds = patience.as_secs();
            return Err(Trouble::new(format!("not within {seconds} s: {what}")));
        }
        thread::sleep(PAUSE);
    }
    Ok(before.elapsed())
}

/// `Err` with `what` unless it `holds`.
#[expect(clippy::fn_params_excessive_bools, reason = "what must hold is one")]
pub(super) fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), Trouble> {
    if holds { Ok(()) } else { Err(Trouble::new(what())) }
}
