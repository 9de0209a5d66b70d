//! The mishaps of rooms again, by way of a server and its API.

use std::fs;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::drill::api::Api;
use crate::drill::limits::Small;
use crate::drill::site::{Site, must, until};
use crate::drill::{Drill, Seen};
use crate::trouble::{OrTrouble, Trouble};

/// More places than there are.
const MOST: u32 = 400;
/// How long a server may take to notice that somebody is gone.
const TO_NOTICE: Duration = Duration::from_secs(20);

pub(super) const KILLED: Drill =
    Drill { name: "A1", what: "kill -9 of the server in the middle of each call", run: killed };

pub(super) const POINTS: Drill =
    Drill { name: "A2", what: "the server or a shim dies between two steps", run: points };

pub(super) const DISK: Drill =
    Drill { name: "A6", what: "no space for the server's state", run: disk };

pub(super) const CYCLES: Drill =
    Drill { name: "A13", what: "ten thousand sandboxes made and deleted", run: cycles };

pub(super) const VANISHED: Drill =
    Drill { name: "A19", what: "clients that vanish in the middle of a call", run: vanished };

/// A call that changes something: its method, where below a sandbox, and what it says.
type Call = (&'static str, &'static str, Option<Value>);

/// Every call that changes a sandbox; the first makes one.
fn calls() -> [Call; 7] {
    [
        ("POST", "", Some(json!({}))),
        ("POST", "/exec", Some(json!({ "command": "echo kept > /tmp/file" }))),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/checkpoints", Some(json!({ "name": "kept" }))),
        ("POST", "/fork", Some(json!({ "count": 2 }))),
        ("DELETE", "", None),
    ]
}

fn killed(site: &Site) -> Result<Seen, Trouble> {
    let api = Api::of(site);
    let rounds = site.count(2, 12);
    let mut deaths = 0;
    for (method, below, body) in calls() {
        for round in 0..rounds {
            api.start(&[])?;
            let path = api.create()?;
            let path = if below.is_empty() && method == "POST" {
                "/v1/sandboxes".to_owned()
            } else {
                format!("{path}{below}")
            };
            let stream = api.say(&Api::request(method, &path, body.as_ref()))?;
            // Each time a little later: before it is read, while it is done, after it is.
            thread::sleep(Duration::from_millis(u64::from(round * 23 % 90)));
            api.kill();
            drop(stream);
            deaths += 1;
            api.start(&[])?;
            let living = api.all_are_well()?;
            must(living <= 3, || format!("after `{method} {path}`, {living} sandboxes live"))?;
            api.remove_all()?;
            api.stop()?;
            nothing_is_left(site, &format!("`{method} {path}`"))?;
        }
    }
    swept(&api)?;
    Ok(Seen::Held(format!("{deaths} deaths; the next server had what was said to be done")))
}

fn points(site: &Site) -> Result<Seen, Trouble> {
    let step = usize::try_from(site.count(2, 1)).unwrap_or(1);
    for (deaths, at) in (1..=MOST).step_by(step).enumerate() {
        let api = Api::of(site);
        let number = at.to_string();
        api.start(&[("BULKHEAD_CRASH_AT", &number)])?;
        let unhurt = live(&api)?;
        api.kill();
        // The next server, to which nothing happens, puts it right.
        api.start(&[])?;
        api.all_are_well()?;
        api.remove_all()?;
        api.stop()?;
        nothing_is_left(site, &format!("a death at {at}"))?;
        if unhurt {
            swept(&Api::of(site))?;
            return Ok(Seen::Held(format!(
                "{deaths} deaths, each put right by the next server"
            )));
        }
    }
    Err(Trouble::new(format!("there is no end of places after {MOST}")))
}

/// Makes every call, and says whether nobody died of it: each was done.
fn live(api: &Api<'_>) -> Result<bool, Trouble> {
    let Ok(path) = api.create() else { return Ok(false) };
    for (method, below, body) in calls().into_iter().skip(1) {
        let Ok(answer) = api.call(method, &format!("{path}{below}"), body.as_ref()) else {
            return Ok(false);
        };
        if !(200..300).contains(&answer.status) {
            // One who dies is an answer in words, as long as the server itself lives.
            answer.problem()?;
            return Ok(false);
        }
    }
    Ok(!api.is_gone())
}

fn disk(site: &Site) -> Result<Seen, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Seen::Untried("mounting takes root".to_owned()));
    }
    // Twice of what is kept in reserve.
    let small = Small::mount(site.dir("small")?, "size=128m")?;
    let api = Api::at(site, small.path());
    api.start(&[])?;
    let path = api.create()?;
    let filler = small.path().join("filler");
    fs::write(&filler, vec![b'x'; 129 << 20])
        .err()
        .ok_or_else(|| Trouble::new("a file of 129 MiB fits into 128 MiB"))?;
    let mut told = String::new();
    for below in ["", "/checkpoints", "/fork"] {
        let path =
            if below.is_empty() { "/v1/sandboxes".into() } else { format!("{path}{below}") };
        told = api.call("POST", &path, Some(&json!({})))?.problem()?;
        must(!told.starts_with("500"), || format!("`POST {path}`: {told}"))?;
    }
    // What lives is not hurt by it.
    let line = json!({ "argv": ["/bin/true"] });
    api.done("POST", &format!("{path}/exec"), Some(&line))?;
    fs::remove_file(&filler).or_trouble(|| "could not make space".to_owned())?;
    let again = api.create()?;
    api.done("POST", &format!("{again}/fork"), None)?;
    api.all_are_well()?;
    api.remove_all()?;
    api.stop()?;
    Ok(Seen::Held(format!("refused ({told}), and well again with space")))
}

fn cycles(site: &Site) -> Result<Seen, Trouble> {
    let count = site.count(60, 10_000);
    let api = Api::of(site);
    api.start(&[])?;
    api.done("DELETE", &api.create()?, None)?;
    let open = api.descriptors();
    let before = Instant::now();
    for _ in 0..count {
        api.done("DELETE", &api.create()?, None)?;
    }
    let each = before.elapsed() / count;
    until("the server lets go of what it opened", TO_NOTICE, || Ok(api.descriptors() <= open))?;
    api.stop()?;
    nothing_is_left(site, "the cycles")?;
    Ok(Seen::Held(format!("{count} cycles, 0 failures, {} ms each", each.as_millis())))
}

fn vanished(site: &Site) -> Result<Seen, Trouble> {
    let count = site.count(5, 100);
    let api = Api::of(site);
    api.start(&[])?;
    let path = api.create()?;
    let open = api.descriptors();
    let long = json!({ "command": "sleep 1000" });
    for at in 0..count {
        for (method, below, body) in calls() {
            let target = if below.is_empty() {
                "/v1/sandboxes".into()
            } else {
                format!("{path}{below}")
            };
            // Whoever deletes what all the others use would end the drill.
            let method = if method == "DELETE" { "GET" } else { method };
            let request = Api::request(method, &target, body.as_ref());
            // The whole of it, and a part of it.
            let part = usize::try_from(at).unwrap_or(0) * 7 % request.len();
            for said in [request.as_slice(), request.get(..part).unwrap_or_default()] {
                drop(api.say(said)?);
            }
        }
        let stream = api.say(&Api::request("POST", &format!("{path}/exec"), Some(&long)))?;
        // It hears no more, and says no more.
        drop(stream.shutdown(Shutdown::Both));
    }
    let quiet = || {
        let programs = api.done("GET", &format!("{path}/programs"), None)?;
        let running = programs.get("programs").and_then(Value::as_array).into_iter().flatten();
        let running = running.filter(|it| it.get("running") == Some(&json!(true))).count();
        Ok(running == 0 && api.descriptors() <= open)
    };
    until("nothing is done for those who left", TO_NOTICE * 2, quiet)?;
    let living = api.all_are_well()?;
    api.remove_all()?;
    api.stop()?;
    nothing_is_left(site, "those who left")?;
    Ok(Seen::Held(format!("{} calls; {living} sandboxes, all well", count * 15)))
}

/// What was still being copied when a server died is removed by the next one that starts, and what
/// was left of a sandbox by the next one that is made.
fn swept(api: &Api<'_>) -> Result<(), Trouble> {
    api.start(&[])?;
    api.done("DELETE", &api.create()?, None)?;
    api.stop()
}

/// The journal has nothing in it.
fn nothing_is_left(site: &Site, after: &str) -> Result<(), Trouble> {
    let left = || {
        let entries = fs::read_dir(site.journal()).into_iter().flatten().flatten();
        entries.map(|it| it.file_name()).collect::<Vec<_>>()
    };
    // A shim that was still being started when its server died ends by itself.
    let empty = until("the journal is empty", TO_NOTICE, || {
        site.forget_all()?;
        Ok(left().is_empty())
    });
    empty.map(drop).map_err(|_| Trouble::new(format!("after {after}, there is {:?}", left())))
}
