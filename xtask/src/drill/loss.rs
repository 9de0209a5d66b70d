//! Somebody is killed who was needed.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::drill::site::{Site, must, until};
use crate::drill::{Drill, Seen};
use crate::processes::{self, Processes};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// How long a server may take to find its rooms again.
const TO_ADOPT: Duration = Duration::from_secs(5);
/// How long what remains of a room may take to go.
const TO_GO: Duration = Duration::from_secs(2);

pub(super) const SERVER: Drill =
    Drill { name: "R1", what: "kill -9 of the server with many rooms", run: server };

pub(super) const SHIM_AND_GUEST: Drill =
    Drill { name: "R3", what: "kill -9 of a shim, and of a room's first process", run: both };

fn server(site: &Site) -> Result<Seen, Trouble> {
    let Some(api) = Api::new(site)? else {
        return Ok(Seen::Untried("there is no `curl`; apt-get install curl".to_owned()));
    };
    let count = site.count(10, 100);
    let mut first = api.serve()?;
    for _ in 0..count {
        api.create()?;
    }
    drop(first.kill());
    drop(first.wait());
    let before = Instant::now();
    let mut second = api.serve()?;
    let listed = api.call(&[], "/v2/sandboxes?limit=100")?;
    let took = before.elapsed();
    api.end(&mut second)?;
    let listed = listed.as_array().map_or(0, Vec::len);
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    must(listed == wanted, || format!("{listed} of {wanted} rooms were found again"))?;
    must(took < TO_ADOPT, || format!("finding them took {} ms", took.as_millis()))?;
    let alive = site.rooms()?.iter().filter(|it| it.alive).count();
    must(alive == wanted, || format!("{alive} of {wanted} rooms live"))?;
    Ok(Seen::Held(format!("{count} rooms found again in {} ms", took.as_millis())))
}

/// The server as its clients know it.
pub(super) struct Api<'a> {
    curl: PathBuf,
    site: &'a Site,
    key: String,
}

impl<'a> Api<'a> {
    /// Nothing where nobody here speaks HTTP.
    pub(super) fn new(site: &'a Site) -> Result<Option<Self>, Trouble> {
        let Some(curl) = programs::find("curl") else { return Ok(None) };
        let key = site.say(&["key", "create", "drill"])?.trim().to_owned();
        Ok(Some(Self { curl, site, key }))
    }

    /// Stops a server, and forgets what it was asked with.
    pub(super) fn end(&self, server: &mut Child) -> Result<(), Trouble> {
        self.site.stop(server)?;
        self.site.say(&["key", "rm", "drill"])?;
        let keys = self.site.state().join("keys.json");
        fs::remove_file(&keys).or_trouble(|| format!("there is no `{}`", keys.display()))
    }

    /// Makes a room, and says its id.
    pub(super) fn create(&self) -> Result<String, Trouble> {
        let made =
            self.call(&["-X", "POST", "-H", "Content-Type: application/json"], "/sandboxes")?;
        let id = made.get("sandboxID").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| Trouble::new(format!("the server said `{made}`")))
    }

    /// Ends it.
    pub(super) fn kill(&self, id: &str) -> Result<(), Trouble> {
        let mut command = self.curl();
        command.args(["-X", "DELETE", &format!("http://localhost/sandboxes/{id}")]);
        programs::output(&mut command).map(drop)
    }

    /// Starts a server and waits until it answers.
    pub(super) fn serve(&self) -> Result<Child, Trouble> {
        let mut command = self.site.command(&["serve", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().or_trouble(|| "could not start the server".to_owned())?;
        until("the server answers", TO_ADOPT, || Ok(self.call(&[], "/v2/sandboxes").is_ok()))?;
        Ok(child)
    }

    fn call(&self, more: &[&str], path: &str) -> Result<Value, Trouble> {
        let mut command = self.curl();
        command.args(more);
        if !more.is_empty() {
            command.args(["--data", r#"{"templateID":"base","timeout":600}"#]);
        }
        let said = programs::output(command.arg(format!("http://localhost{path}")))?;
        serde_json::from_str(&said).or_trouble(|| format!("the server said `{said}`"))
    }

    fn curl(&self) -> Command {
        let mut command = programs::command(&self.curl);
        command.args(["--silent", "--fail-with-body", "--max-time", "20", "--unix-socket"]);
        command.arg(self.site.runtime().join("bulkhead.sock"));
        command.args(["-H", &format!("X-API-Key: {}", self.key)]);
        command
    }
}

fn both(site: &Site) -> Result<Seen, Trouble> {
    site.create("room", 2)?;
    let (one, other) = (site.room("room-0")?, site.room("room-1")?);
    for room in [&one, &other] {
        site.say(&["exec", "-d", &room.name, "--", "sleep", "1000"])?;
    }
    let processes = Processes::now()?;
    let shims = [site.shim(&one)?, site.shim(&other)?];
    let trees =
        shims.map(|it| processes.tree_of(it).iter().map(|it| it.identity).collect::<Vec<_>>());
    processes::signal(shims[0], Signal::KILL)?;
    let guest = processes.iter().find(|it| it.parent == shims[1]);
    let guest = guest.ok_or_else(|| Trouble::new("a shim has no guest"))?;
    processes::signal(guest.identity.pid, Signal::KILL)?;
    let took = until("nothing of the two rooms runs", TO_GO, || {
        let alive = Processes::now()?.alive();
        Ok(trees.iter().flatten().all(|it| !alive.contains(it)))
    })?;
    for room in [&one, &other] {
        let found = site.room(&room.name)?;
        must(!found.alive && found.state.contains("without a word"), || {
            format!("`{}` is said to be `{}`", found.name, found.state)
        })?;
    }
    site.say(&["create", "--name", "room-0"])?;
    Ok(Seen::Held(format!("both told as lost, all gone after {} ms", took.as_millis())))
}
