//! Somebody is killed who was needed.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
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
    let Some(curl) = programs::find("curl") else {
        return Ok(Seen::Untried("there is no `curl`; apt-get install curl".to_owned()));
    };
    let count = site.count(10, 100);
    let key = site.say(&["key", "create", "drill"])?.trim().to_owned();
    let api = Api { curl: &curl, site, key };
    let mut first = api.serve()?;
    for _ in 0..count {
        api.call(&["-X", "POST", "-H", "Content-Type: application/json"], "/sandboxes")?;
    }
    drop(first.kill());
    drop(first.wait());
    let before = Instant::now();
    let mut second = api.serve()?;
    let listed = api.call(&[], "/v2/sandboxes?limit=100")?;
    let took = before.elapsed();
    site.stop(&mut second)?;
    site.say(&["key", "rm", "drill"])?;
    let keys = site.state().join("keys.json");
    fs::remove_file(&keys).or_trouble(|| format!("there is no `{}`", keys.display()))?;
    let listed = listed.as_array().map_or(0, Vec::len);
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    must(listed == wanted, || format!("{listed} of {wanted} rooms were found again"))?;
    must(took < TO_ADOPT, || format!("finding them took {} ms", took.as_millis()))?;
    let alive = site.rooms()?.iter().filter(|it| it.alive).count();
    must(alive == wanted, || format!("{alive} of {wanted} rooms live"))?;
    Ok(Seen::Held(format!("{count} rooms found again in {} ms", took.as_millis())))
}

/// The server as its clients know it.
struct Api<'a> {
    curl: &'a Path,
    site: &'a Site,
    key: String,
}

impl Api<'_> {
    /// Starts a server and waits until it answers.
    fn serve(&self) -> Result<Child, Trouble> {
        let mut command = self.site.command(&["serve", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().or_trouble(|| "could not start the server".to_owned())?;
        until("the server answers", TO_ADOPT, || Ok(self.call(&[], "/v2/sandboxes").is_ok()))?;
        Ok(child)
    }

    fn call(&self, more: &[&str], path: &str) -> Result<Value, Trouble> {
        let socket = self.site.runtime().join("bulkhead.sock");
        let mut command = programs::command(self.curl);
        command.args(["--silent", "--fail-with-body", "--max-time", "20", "--unix-socket"]);
        command.arg(socket).args(["-H", &format!("X-API-Key: {}", self.key)]).args(more);
        if !more.is_empty() {
            command.args(["--data", r#"{"templateID":"base","timeout":600}"#]);
        }
        let said = programs::output(command.arg(format!("http://localhost{path}")))?;
        serde_json::from_str(&said).or_trouble(|| format!("the server said `{said}`"))
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
