//! Very many rooms, at once and one after the other.

use std::time::{Duration, Instant};

use crate::bench::stats;
use crate::drill::site::{Site, must, side_by_side};
use crate::drill::{Drill, Seen};
use crate::print;
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

fn cycles(site: &Site) -> Result<Seen, Trouble> {
    const TOLD_EVERY: u32 = 500;
    let count = site.count(60, 10_000);
    let before = Instant::now();
    for at in 0..count {
        let name = format!("cycle-{at}");
        site.say(&["create", "--name", &name])?;
        site.say(&["rm", "--force", &name])?;
        if at % TOLD_EVERY == TOLD_EVERY - 1 {
            print::progress(&format!("  {} of {count}", at + 1));
        }
    }
    let each = before.elapsed() / count;
    Ok(Seen::Held(format!("{count} cycles, 0 failures, {} ms each", each.as_millis())))
}

fn p99(took: &[Duration]) -> String {
    stats::Summary::of(took).map_or_else(String::new, |it| format!("{:.0} ms", it.p99))
}
