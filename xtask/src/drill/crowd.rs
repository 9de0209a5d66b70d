//! Very many rooms, at once and one after the other.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::bench::stats;
use crate::drill::loss::Api;
use crate::drill::site::{Site, must, side_by_side};
use crate::drill::{Drill, Seen};
use crate::print;
use crate::processes;
use crate::trouble::Trouble;

pub(super) const MANY: Drill =
    Drill { name: "R12", what: "a thousand rooms at once, then none", run: many };

pub(super) const CYCLES: Drill =
    Drill { name: "R13", what: "ten thousand rooms made and forgotten", run: cycles };

fn many(site: &Site) -> Result<Seen, Trouble> {
    let count = site.count(40, 1000);
    let made = site.create("room", count)?;
    let rooms = site.rooms()?;
    let alive = rooms.iter().filter(|it| it.alive).count();
    must(alive == rooms.len() && made.len() == rooms.len(), || {
        format!("{alive} of {count} rooms live")
    })?;
    let before = Instant::now();
    let names: Vec<_> = rooms.into_iter().map(|it| it.id).collect();
    let ended = side_by_side(&names, |id| site.say(&["rm", "--force", id]).map(drop))?;
    Ok(Seen::Held(format!(
        "{count} rooms, p99 create {} and end {}; all ended in {} ms",
        p99(&made),
        p99(&ended),
        before.elapsed().as_millis()
    )))
}

/// Those who are there all the time must not grow with what comes and goes beside them: a room, and
/// a server that makes every tenth.
fn cycles(site: &Site) -> Result<Seen, Trouble> {
    const TOLD_EVERY: u32 = 500;
    const SERVED_EVERY: u32 = 10;
    let count = site.count(60, 10_000);
    site.say(&["create", "--name", "witness"])?;
    let mut witnesses = vec![("shim", site.shim(&site.room("witness")?)?)];
    let api = Api::new(site)?;
    let mut server = api.as_ref().map(Api::serve).transpose()?;
    witnesses.extend(server.iter().map(|it| ("server", it.id())));
    let (before, mut early) = (Instant::now(), Vec::new());
    for at in 0..count {
        match &api {
            Some(api) if at % SERVED_EVERY == 0 => api.kill(&api.create()?)?,
            Some(_) | None => {
                let name = format!("cycle-{at}");
                site.say(&["create", "--name", &name])?;
                site.say(&["rm", "--force", &name])?;
            }
        }
        // What is needed once, they have by then.
        if at == count / 10 {
            early = witnesses.iter().map(|(_, pid)| weigh(*pid)).collect();
        }
        if at % TOLD_EVERY == TOLD_EVERY - 1 {
            print::progress(&format!("  {} of {count}", at + 1));
        }
    }
    let each = before.elapsed() / count;
    let mut told = vec![format!("{count} cycles, 0 failures, {} ms each", each.as_millis())];
    for ((who, pid), early) in witnesses.iter().zip(early) {
        let late = weigh(*pid);
        told.push(format!("{who} {early} early, {late} at the end"));
        must(late.is_as_flat_as(early), || format!("the {who} grew from {early} to {late}"))?;
    }
    if let (Some(api), Some(server)) = (&api, &mut server) {
        api.end(server)?;
    }
    Ok(Seen::Held(told.join("; ")))
}

/// What a process holds.
#[derive(Clone, Copy)]
struct Weight {
    kib: u64,
    files: usize,
}

impl Weight {
    /// Whether it is not more than `early`, but for what an allocator keeps and a call that is being
    /// answered needs.
    fn is_as_flat_as(self, early: Self) -> bool {
        const KIB: u64 = 4096;
        const FILES: usize = 8;
        self.kib <= early.kib + early.kib / 4 + KIB && self.files <= early.files + FILES
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} KiB and {} descriptors", self.kib, self.files)
    }
}

fn weigh(pid: u32) -> Weight {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().count();
    Weight { kib: processes::proportional_kib(pid).unwrap_or(0), files }
}

fn p99(took: &[Duration]) -> String {
    stats::Summary::of(took).map_or_else(String::new, |it| format!("{:.0} ms", it.p99))
}
