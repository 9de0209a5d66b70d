//! `bulkhead pool`: rooms that are made before somebody wants one.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::Path,
    time::Duration,
};

use bulkhead_engine::rooms::{
    Admission, Journal, Listed, Pooled, Record,
    pool::{self, Key, RefillWanted, parked},
};
use serde_json::json;

use super::{
    create::{ITSELF, admission, of_launch, recorded, usual},
    here::Here,
    journal_in,
    list::age,
    of_journal,
};
use crate::{
    args::{
        pool::{FillArgs, PoolVerb},
        rooms::FormArgs,
        run::Ask,
    },
    codes::Code,
    commands::run::fresh_id,
    config::{Environment, Paths, Who},
    engine,
    failure::Failure,
    printer::{Format, Printer, Talk},
    wish::{Caller, Wish},
};

/// How long a room that was handed out has the host to itself before another is made.
const FIRST_THINGS: Duration = Duration::from_millis(50);

/// Does what `verb` says.
pub(crate) fn run(
    verb: &PoolVerb,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    match verb {
        PoolVerb::Fill(args) => fill(args, environment, printer),
        PoolVerb::Ls(args) => list(args, &environment, printer),
        PoolVerb::Drain => drain(&environment, printer),
    }
}

/// The journal, in which all was looked at.
fn everywhere(environment: &Environment, printer: &Printer) -> Result<Journal, Failure> {
    let rooms = Here::open(environment, printer)?;
    rooms.look_around()?;
    Ok(rooms.journal)
}

/// Makes rooms until as many wait as are wanted, and prints how many were made.
fn fill(
    args: &FillArgs,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    printer.talk = Talk::from(&args.ask.talk);
    let journal = everywhere(&environment, printer)?;
    let wish = Wish::of(&args.ask, Caller::default(), environment)?;
    let size = args.size.or(wish.layer.house.pool).filter(|it| *it != 0).ok_or_else(|| {
        Failure::new(Code::Argument, "nobody said how many rooms are to wait")
            .hint("say --size NUMBER, or set `size` in the table [pool] of the configuration")
    })?;
    let record = recorded(&wish, None, printer)?;
    let key = Key::of(&record, Path::new(ITSELF)).ok_or_else(|| {
        Failure::new(Code::Argument, "such a room cannot be made ahead").because(
            "secrets, a name in a private network and an image that is asked for anew each time \
             belong to whoever wants the room",
        )
    })?;
    let (slot, admission) = (slot(&args.ask), admission(&wish)?);
    let parked = parked(&record, fresh_id()?, &slot, &key);
    let made = engine::runtime()?.block_on(async {
        let stale = pool::drain_stale(&journal, &slot, Some(&key)).await;
        stale.map_err(|error| of_journal(&error))?;
        pool::wish(&journal, &parked, size).map_err(unwritten)?;
        filled(&journal, &admission, &parked).await
    })?;
    printer.payload(&format!("{made}\n"))?;
    Ok(0)
}

/// Parks rooms until as many wait as are wished for.
async fn filled(
    journal: &Journal,
    admission: &Admission,
    parked: &Record,
) -> Result<u32, Failure> {
    let fresh = || crate::ahead::fresh_id().map_err(io::Error::from);
    let made = pool::fill(journal, (Path::new(ITSELF), admission), parked, fresh).await;
    made.map_err(|error| of_launch(&error))
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(Code::Record, "could not write down how many rooms are to wait").because(error)
}

/// Parks rooms in the place of some that were handed out, in a process that nobody waits for.
pub(super) fn refill(environment: &Environment, wanted: &RefillWanted) -> Result<(), Failure> {
    // Whoever was handed a room has something to do first.
    std::thread::sleep(FIRST_THINGS);
    let journal = journal_in(&Paths::find(environment, Who::current()))?;
    let (admission, _) = usual(environment)?;
    engine::runtime()?.block_on(filled(&journal, &admission, &wanted.refill)).map(drop)
}

/// A room that waits for somebody who wants one like `record`, under the name `named` if that was
/// said. Those that waited for the same flags, and that rules, configuration or program would no
/// longer make so, are ended.
pub(super) async fn take(
    journal: &Journal,
    (record, named): (&Record, Option<&str>),
    ask: &Ask,
) -> Result<Option<Record>, Failure> {
    let wanted = |id: &str| {
        let (id, name) = (id.to_owned(), named.unwrap_or(id).to_owned());
        Record { id, name, ..record.clone() }
    };
    let taken = pool::take(journal, wanted, Path::new(ITSELF)).await;
    let taken = taken.map_err(|error| of_journal(&error))?;
    if taken.is_none()
        && let Some(key) = Key::of(record, Path::new(ITSELF))
    {
        let slot = slot(ask);
        let stale = pool::drain_stale(journal, &slot, Some(&key)).await;
        stale.map_err(|error| of_journal(&error))?;
        // Those that waited were killed, or are being made.
        let parked = parked(record, fresh_id()?, &slot, &key);
        pool::refill(journal, Path::new(ITSELF), &parked).await;
    }
    Ok(taken.map(|it| it.record))
}

/// What was asked for by flags, whatever configuration and rules make of it.
fn slot(ask: &Ask) -> String {
    let Ask { files, limits, net, walls, from, .. } = ask;
    let mut hasher = DefaultHasher::new();
    format!("{files:?} {limits:?} {net:?} {walls:?} {from:?}").hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn list(args: &FormArgs, environment: &Environment, printer: &Printer) -> Result<u8, Failure> {
    let parked = everywhere(environment, printer)?.parked();
    let parked = parked.map_err(|error| of_journal(&error))?;
    if args.quiet {
        for it in &parked {
            printer.payload(&format!("{}\n", it.record.id))?;
        }
        return Ok(0);
    }
    let key = |it: &Listed| match &it.record.pool {
        Pooled::Parked { key, .. } => key.clone(),
        Pooled::No | Pooled::Taken { .. } => String::new(),
    };
    let text = match Format::from(args.json) {
        Format::Json => {
            let rooms: Vec<_> = parked
                .iter()
                .map(|it| {
                    let Record { id, made, backend, .. } = &it.record;
                    json!({ "id": id, "made": made, "backend": backend, "key": key(it) })
                })
                .collect();
            format!("{:#}\n", json!({ "schema_version": 1, "rooms": rooms }))
        }
        Format::Text => {
            let line = |it: &Listed| {
                format!("{:19}  {:5}  {}\n", it.record.id, age(it.record.made), key(it))
            };
            let head = format!("{:19}  {:5}  KEY\n", "ID", "AGE");
            [head].into_iter().chain(parked.iter().map(line)).collect()
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Ends every room that waits, and prints how many there were.
fn drain(environment: &Environment, printer: &Printer) -> Result<u8, Failure> {
    let journal = everywhere(environment, printer)?;
    let ended = engine::runtime()?.block_on(pool::drain(&journal));
    let ended = ended.map_err(|error| of_journal(&error))?;
    printer.payload(&format!("{ended}\n"))?;
    Ok(0)
}
