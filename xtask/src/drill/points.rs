//! A process is killed at each place between two of its steps.
//!
//! Twice: everybody of a whole life is told to die at their n-th place, which is how shims die, as
//! they pass more places than any command; and one verb alone is, in a room that nobody has hurt,
//! which is how commands die.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::drill::site::{Ended, Room, Site, ended, must, until};
use crate::drill::{Drill, Seen};
use crate::trouble::Trouble;

/// More places than there are.
const MOST: u32 = 200;
/// How long a shim may hold on to what its room began with.
const SETTLED: Duration = Duration::from_secs(10);

pub(super) const POINTS: Drill =
    Drill { name: "R2", what: "kill -9 at every injected place of a life", run: points };

type Command = &'static [&'static str];

const CREATE: Command = &["create", "--name", "room"];
const WRITE: Command = &["exec", "room", "--", "sh", "-c", "echo kept > /tmp/file"];
const READ: Command = &["exec", "room", "--", "cat", "/tmp/file"];
const KEEP: Command = &["checkpoint", "create", "room", "one"];
const RESTORE: Command = &["checkpoint", "restore", "--force", "one"];
const FORK: Command = &["fork", "room", "-n", "2", "--name", "child"];
const FILL: Command = &["pool", "fill", "--size", "1"];
const TAKE: Command = &["create", "--no-workspace", "--name", "room"];

/// Every verb that changes a room, as lives.
const LIVES: [&[Command]; 2] = [
    &[
        CREATE,
        WRITE,
        &["pause", "room"],
        &["resume", "room"],
        KEEP,
        FORK,
        &["rm", "--force", "child-1", "child-2"],
        RESTORE,
        &["checkpoint", "rm", "one"],
        &["kill", "room"],
        &["rm", "room"],
    ],
    &[FILL, TAKE, WRITE, &["pause", "room"], KEEP, &["rm", "--force", "room"]],
];

/// A verb, and what must be there before it and after it, whoever dies of it.
struct Verb {
    before: &'static [Command],
    said: Command,
    /// What can be said again when it was cut short.
    again: &'static [Command],
}

const VERBS: [Verb; 10] = [
    Verb { before: &[], said: CREATE, again: &[] },
    Verb { before: &[CREATE, WRITE], said: &["pause", "room"], again: &[READ] },
    Verb { before: &[CREATE, WRITE], said: KEEP, again: &[READ] },
    Verb { before: &[CREATE, WRITE], said: FORK, again: &[READ] },
    Verb { before: &[CREATE, WRITE, KEEP], said: RESTORE, again: &[RESTORE, READ] },
    Verb { before: &[CREATE, WRITE, KEEP], said: &["checkpoint", "rm", "one"], again: &[READ] },
    Verb { before: &[CREATE], said: &["rm", "--force", "room"], again: &[] },
    Verb { before: &[], said: FILL, again: &[TAKE, WRITE] },
    Verb { before: &[FILL], said: TAKE, again: &[] },
    Verb { before: &[FILL], said: &["pool", "drain"], again: &[TAKE, WRITE] },
];

fn points(site: &Site) -> Result<Seen, Trouble> {
    let mut deaths = 0;
    for life in LIVES {
        deaths += die_of(site, |at| live(site, life, at))?;
    }
    for verb in &VERBS {
        deaths += die_of(site, |at| verb.cut_short(site, at))?;
    }
    Ok(Seen::Held(format!("{deaths} deaths, each swept by the next start")))
}

/// Does `what`, somebody dying at each place in turn, until nobody does; says how many died.
fn die_of(site: &Site, what: impl Fn(u32) -> Result<bool, Trouble>) -> Result<u32, Trouble> {
    for at in 1..=MOST {
        let unhurt = what(at)?;
        site.forget_all()?;
        is_tidy(site, at)?;
        if unhurt {
            return Ok(at - 1);
        }
        // The next start puts it right.
        site.say(&["create", "--name", "next"])?;
        site.say(&["rm", "--force", "next"])?;
    }
    Err(Trouble::new(format!("there is no end of places after {MOST}")))
}

/// Lives, and says whether nobody died of it.
fn live(site: &Site, life: &[Command], at: u32) -> Result<bool, Trouble> {
    for args in life {
        let ended = armed(site, args, at)?;
        // A room that is asked to end does, also when its shim dies of it.
        let lost = |it: &Room| it.state.contains("without a word");
        if !ended.status.success() || site.rooms()?.iter().any(lost) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Verb {
    /// Dies of the verb alone, and says whether nobody did.
    fn cut_short(&self, site: &Site, at: u32) -> Result<bool, Trouble> {
        for args in self.before {
            site.say(args)?;
        }
        let ended = armed(site, self.said, at)?;
        if ended.status.success() {
            // Somebody behind the command may have died: a shim that nobody waited for.
            let lost = |it: &Room| it.state.contains("without a word");
            return Ok(!site.rooms()?.iter().any(lost));
        }
        for args in self.again {
            let said = site.say(args)?;
            must(*args != READ || said == "kept\n", || {
                format!("after a death at {at} of {:?}, the room says `{said}`", self.said)
            })?;
        }
        Ok(false)
    }
}

/// Runs a command that dies at its `at`-th place, as does whoever it starts.
fn armed(site: &Site, args: &[&str], at: u32) -> Result<Ended, Trouble> {
    let mut command = site.command(args);
    command.env("BULKHEAD_CRASH_AT", at.to_string());
    let ended = ended(&mut command)?;
    must(!ended.stderr.contains("panicked"), || {
        format!("at {at}, `{}` panicked: {}", args.join(" "), ended.stderr)
    })?;
    Ok(ended)
}

/// Nothing is written down of rooms that are no more.
fn is_tidy(site: &Site, at: u32) -> Result<(), Trouble> {
    let settled = || {
        // What only those needed that have ended goes with the next command.
        site.say(&["checkpoint", "ls"])?;
        site.say(&["pool", "ls"])?;
        Ok(left(site).is_empty())
    };
    until("nothing is left", SETTLED, settled).map(drop).map_err(|trouble| {
        let left = left(site);
        Trouble::new(format!("after a death at {at}: {} ({left:?})", trouble.sentence()))
    })
}

/// What is still written down.
fn left(site: &Site) -> Vec<PathBuf> {
    let places = ["rooms", "names", "pool", "layers", "checkpoints"];
    let entries = places.into_iter().flat_map(|it| fs::read_dir(site.state().join(it)));
    entries.flatten().flatten().map(|it| it.path()).collect()
}
