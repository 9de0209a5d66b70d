//! Time does not pass as it should.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::drill::site::{Site, ended, must, side_by_side, until};
use crate::drill::{Drill, Seen};
use crate::processes;
use crate::trouble::Trouble;

/// What makes a program see another time; a package of Debian has it.
const FAKE: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

pub(super) const WALL_CLOCK: Drill = Drill {
    name: "R10",
    what: "the clock on the wall a year ahead and a year behind",
    run: wall,
};

pub(super) const STOPPED: Drill =
    Drill { name: "R11", what: "every shim stopped for a while", run: stopped };

fn wall(site: &Site) -> Result<Seen, Trouble> {
    let Some(fake) = FAKE.into_iter().find(|it| Path::new(it).exists()) else {
        return Ok(Seen::Untried(
            "there is no libfaketime; apt-get install faketime".to_owned(),
        ));
    };
    for (name, shift) in [("ahead", "+365d"), ("behind", "-365d")] {
        let mut create = site.command(&["create", "--name", name, "--ttl", "3s"]);
        create.env("LD_PRELOAD", fake).env("FAKETIME", shift);
        create.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        let made = ended(&mut create)?;
        must(made.status.success(), || format!("no room a year {name}: {}", made.stderr))?;
        let before = Instant::now();
        site.say(&["exec", name, "--", "true"])?;
        let patience = Duration::from_secs(20);
        until("the room's time is over", patience, || Ok(!site.room(name)?.alive))?;
        let lived = before.elapsed();
        must(lived > Duration::from_secs(1), || {
            format!("a year {name}, a room of 3 s lived {} ms", lived.as_millis())
        })?;
    }
    Ok(Seen::Held("rooms of 3 s lived 3 s".to_owned()))
}

fn stopped(site: &Site) -> Result<Seen, Trouble> {
    let count = site.count(5, 20);
    let pause = Duration::from_secs(site.count(3, 60).into());
    site.create("room", count)?;
    let mut shims = Vec::new();
    for room in site.rooms()? {
        shims.push(site.shim(&room)?);
    }
    for shim in &shims {
        processes::signal(*shim, Signal::STOP)?;
    }
    thread::sleep(pause);
    for shim in &shims {
        processes::signal(*shim, Signal::CONT)?;
    }
    let rooms = site.rooms()?;
    let alive = rooms.iter().filter(|it| it.alive).count();
    must(alive == rooms.len(), || format!("{alive} of {count} rooms live"))?;
    let names: Vec<_> = rooms.into_iter().map(|it| it.name).collect();
    let took = side_by_side(&names, |it| site.say(&["exec", it, "--", "true"]).map(drop))?;
    let longest = took.into_iter().max().unwrap_or_default();
    Ok(Seen::Held(format!(
        "{count} rooms stopped for {} s; all answer, the slowest in {} ms",
        pause.as_secs(),
        longest.as_millis()
    )))
}
