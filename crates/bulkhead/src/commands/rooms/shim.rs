//! `bulkhead shim`: the process that holds one room, or copies what one left. Started by `create`,
//! `fork` and `checkpoint`, not by people.

use std::{
    io::{self, Read as _, Write as _},
    sync::Arc,
};

use bulkhead_backends::{
    fork::{Forked, Single},
    together::{Unready, together},
};
use bulkhead_engine::{
    Engine,
    rooms::{
        Alike, Claim, CopyWanted, Journal, NotCopied, Ready, Record, copy_ended, hold,
        hold_one_of_many, pool::RefillWanted,
    },
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde_json::json;

use super::journal_in;
use crate::{
    codes::Code,
    config::{Choice, Environment, Paths, RuntimeName, Who},
    engine::{self, Tell},
    failure::Failure,
};

/// How long rooms wait to be built for whoever wanted them to take note of them.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// As much as a shim takes to make its room.
const SHIM_HEAP: usize = 128 * 1024;

/// Reads what room is wanted from stdin, says on stdout whether it came to be, and holds it.
pub(crate) fn run(environment: &Environment) -> Result<u8, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::System, "could not become the shim of a room").because(error)
    };
    // A session of its own: the terminal that this began on may go away.
    rustix::process::setsid().map_err(|errno| failed(errno.into()))?;
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(failed)?;
    let wanted: Wanted = match serde_json::from_str(&text) {
        Ok(wanted) => wanted,
        Err(error) => return Err(failed(io::Error::other(error))),
    };
    let held = match wanted {
        Wanted::Copy(wanted) => copy(environment, &wanted),
        Wanted::Refill(wanted) => super::pool::refill(environment, &wanted),
        Wanted::One(record) => hold_one(environment, *record),
        Wanted::Many(rooms) => {
            hold_many(environment, rooms.into_iter().flat_map(Alike::records).collect())
        }
    };
    if let Err(failure) = &held {
        say(&failure.json(failure.exit.unwrap_or(125)));
    }
    held.map(|()| 0)
}

/// What is read from stdin.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wanted {
    /// Rooms whose disks begin alike.
    Many(Vec<Alike>),
    /// The disk of a room that has ended.
    Copy(CopyWanted),
    /// Rooms in the place of some that were handed out.
    Refill(RefillWanted),
    /// One room.
    One(Box<Record>),
}

/// Copies the disk of a room that has ended.
fn copy(environment: &Environment, wanted: &CopyWanted) -> Result<(), Failure> {
    let paths = Paths::find(environment, Who::current());
    let journal = journal_in(&paths)?;
    let runtime = engine::runtime()?;
    let done = runtime.block_on(async {
        let engine = engine_for(environment, &paths, &wanted.of).await?;
        let copied = copy_ended(&engine, &journal, wanted).await;
        copied.map_err(|error| match error {
            NotCopied::Journal(error) => super::of_journal(&error),
            NotCopied::Room(error) => Failure::of_run(&error),
        })
    })?;
    runtime.shutdown_background();
    say(&json!(done));
    Ok(())
}

fn hold_one(environment: &Environment, record: Record) -> Result<(), Failure> {
    let paths = Paths::find(environment, Who::current());
    let journal = journal_in(&paths)?;
    let runtime = engine::runtime()?;
    let done = runtime.block_on(async {
        let engine = engine_for(environment, &paths, &record).await?;
        let held = hold(Arc::new(engine), &journal, record, tell).await;
        held.map_err(|error| Failure::new(Code::Room, "could not end the room").because(error))
    });
    runtime.shutdown_background();
    done
}

/// Begins all rooms, and becomes a shim for each.
fn hold_many(environment: &Environment, records: Vec<Record>) -> Result<(), Failure> {
    let Some(first) = records.first() else { return Ok(()) };
    let paths = Paths::find(environment, Who::current());
    let journal = journal_in(&paths)?;
    let engine = engine::runtime()?.block_on(engine_for(environment, &paths, first))?;
    let disk = journal.beginning_of(first).map_err(|error| super::of_journal(&error))?;
    let (unready, created) = together().map_err(no_shim)?;
    engine.expect_many(&disk, created).map_err(|error| Failure::of_run(&error))?;
    let single = Single::now().map_err(no_shim)?;
    let series = journal.series(&records).map_err(|error| super::of_journal(&error))?;
    let mut records = records.into_iter();
    // One is made while the next is written down.
    while let Some(record) = records.next() {
        let claim = series.begin(&record).map_err(|error| super::of_journal(&error))?;
        match single.fork() {
            Ok(Forked::Parent) => {
                drop(claim);
                std::mem::forget(record);
            }
            Ok(Forked::Child) => {
                crate::HEAP.renew(SHIM_HEAP);
                drop(series);
                // To drop these would take apart what is the same in every copy, which costs a page at
                // a time.
                std::mem::forget(records);
                return hold_forked(engine, &journal, (record, claim), unready);
            }
            Err(error) => return Err(no_shim(claim.erase().err().unwrap_or(error))),
        }
    }
    drop(series);
    // Whoever asked waits for this, too.
    journal.settle().map_err(|error| {
        Failure::new(Code::System, "could not write rooms down").because(error)
    })?;
    say(&json!({ "settled": true }));
    until_heard();
    drop(unready);
    Ok(())
}

fn no_shim(error: io::Error) -> Failure {
    Failure::new(Code::System, "could not make a shim").because(error)
}

fn hold_forked(
    engine: Engine,
    journal: &Journal,
    room: (Record, Claim),
    unready: Unready,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(Code::Room, "a shim failed").because(error);
    rustix::process::setsid().map_err(|errno| failed(errno.into()))?;
    let runtime = engine::runtime()?;
    let told = |ready| {
        tell(ready);
        drop(unready);
    };
    let done = runtime.block_on(hold_one_of_many(Arc::new(engine), journal, room, told));
    runtime.shutdown_background();
    done.map_err(failed)
}

/// An engine that can build the room of `record`, on a host that was swept.
async fn engine_for(
    environment: &Environment,
    paths: &Paths,
    record: &Record,
) -> Result<Engine, Failure> {
    let odd = |why: String| Failure::new(Code::Argument, "cannot build").because(why);
    let choice: Choice = record.backend.parse().map_err(odd)?;
    let named = record.runtime.as_ref().map(|it| it.parse::<RuntimeName>());
    let named = named.transpose().map_err(odd)?;
    // Whoever began this hears only how it went.
    let tell_nobody: Tell = Arc::new(|_| ());
    let wanted = engine::Wanted {
        choice,
        runtime: named.as_ref(),
        spec: &record.spec,
        policy: &record.policy,
        paths,
        environment,
        tell: &tell_nobody,
    };
    let backends = engine::offer(&wanted).await?.backends;
    let listeners = engine::Listeners::default();
    let policy = record.policy.clone();
    let engine = engine::recording(policy, backends, paths, environment, listeners)?;
    engine.sweep().await.map_err(|error| Failure::of_run(&error))?;
    Ok(engine)
}

fn tell(ready: Ready) {
    let said = match ready {
        Ready::Yes => json!({ "ready": true }),
        Ready::Journal(error) => {
            let failure = super::of_journal(&error);
            failure.json(failure.exit.unwrap_or(125))
        }
        Ready::Room(error) => Failure::of_run(&error).json(error.exit_code()),
        Ready::System(error) => {
            let failure = Failure::new(Code::System, "the room cannot be talked to");
            failure.because(error).json(125)
        }
    };
    say(&said);
    leave_streams();
}

/// One line for whoever started us; it may be gone, and the room is there all the same.
fn say(what: &serde_json::Value) {
    let mut out = io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).unwrap_or_default();
}

/// Waits until whoever started us has heard enough and no longer listens: a hundred rooms that are built
/// would keep them from the processor. One who stands still does not keep the rooms from being built.
fn until_heard() {
    let stdout = io::stdout();
    let mut heard = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut heard, Some(&PATIENCE)).map(drop).unwrap_or_default();
}

/// Lets go of the streams: whoever waits for them to end need not wait for the room.
fn leave_streams() {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let Ok(null) = null else { return };
    rustix::stdio::dup2_stdin(&null).unwrap_or_default();
    rustix::stdio::dup2_stdout(&null).unwrap_or_default();
    rustix::stdio::dup2_stderr(&null).unwrap_or_default();
}
