//! A process is killed at each place between two of its steps.

use crate::drill::site::{Room, Site, ended, must};
use crate::drill::{Drill, Seen};
use crate::trouble::Trouble;

/// More places than there are.
const MOST: u32 = 200;

pub(super) const POINTS: Drill =
    Drill { name: "R2", what: "kill -9 at every injected place of a life", run: points };

/// Every verb that changes a room, as one life.
const LIFE: [&[&str]; 6] = [
    &["create", "--name", "room"],
    &["exec", "room", "--", "sh", "-c", "echo kept > /tmp/file"],
    &["pause", "room"],
    &["resume", "room"],
    &["kill", "room"],
    &["rm", "room"],
];

fn points(site: &Site) -> Result<Seen, Trouble> {
    for at in 1..=MOST {
        let unhurt = live(site, at)?;
        site.forget_all()?;
        let left = std::fs::read_dir(site.journal()).into_iter().flatten().flatten();
        let left: Vec<_> = left.map(|it| it.file_name()).filter(|it| it != "lock").collect();
        must(left.is_empty(), || format!("after a death at {at}, the journal has {left:?}"))?;
        if unhurt {
            return Ok(Seen::Held(format!("{} deaths, each swept by the next start", at - 1)));
        }
        // The next start puts it right.
        site.say(&["create", "--name", "next"])?;
        site.say(&["rm", "--force", "next"])?;
    }
    Err(Trouble::new(format!("there is no end of places after {MOST}")))
}

/// Lives, and says whether nobody died of it.
fn live(site: &Site, at: u32) -> Result<bool, Trouble> {
    for args in LIFE {
        let mut command = site.command(args);
        command.env("BULKHEAD_CRASH_AT", at.to_string());
        let ended = ended(&mut command)?;
        must(!ended.stderr.contains("panicked"), || {
            format!("at {at}, `{}` panicked: {}", args.join(" "), ended.stderr)
        })?;
        // A room that is asked to end does, also when its shim dies of it.
        let lost = |it: &Room| it.state.contains("without a word");
        if !ended.status.success() || site.rooms()?.iter().any(lost) {
            return Ok(false);
        }
    }
    Ok(true)
}
