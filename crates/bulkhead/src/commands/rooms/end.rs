//! `bulkhead pause`, `resume`, `stop`, `kill`, `rm`, `wait`, `prune`.

use std::time::Duration;

use bulkhead_engine::rooms::{Client, ClientError, Keeping, Life};
use bulkhead_spec::escape;

use super::{
    checkpoint::of_checkpoint,
    create::{make, usual},
    house::{self, House, Seen},
    journal, of_client, of_journal,
};
use crate::{
    args::rooms::{PruneArgs, RmArgs, RoomsArgs, StopArgs},
    codes::Code,
    config::Environment,
    engine,
    failure::Failure,
    printer::Printer,
};

/// Freezes rooms.
pub(crate) fn pause(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    each(&args.rooms, environment, printer, &async |client| client.pause().await)
}

/// Lets them go on.
pub(crate) fn resume(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    each(&args.rooms, environment, printer, &async |client| client.resume().await)
}

/// Starts rooms again that have ended and whose disks were kept.
pub(crate) fn start(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let journal = journal(environment, printer)?;
    let runtime = engine::runtime()?;
    for room in &args.rooms {
        let listed = journal.find(room).map_err(|error| of_journal(&error))?;
        let name = escape(&listed.record.name);
        if listed.life != Life::Alive {
            if listed.record.keeping == Keeping::Memory {
                let what = format!("the room `{name}` cannot be started again");
                return Err(Failure::new(Code::Room, what)
                    .because("its disk was in memory and ended with it")
                    .hint("a room that is to be started again is made with --persist"));
            }
            runtime.block_on(make(&usual(environment)?.0, &listed.record))?;
        }
        printer.payload(&format!("{name}\n"))?;
    }
    Ok(0)
}

/// Ends rooms; their programs may tidy up.
pub(crate) fn stop(
    args: &StopArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let grace = args.time.0;
    each(&args.rooms, environment, printer, &async |client| client.end(grace).await)?;
    tidy(environment, printer)
}

/// Ends rooms, now.
pub(crate) fn kill(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    each(&args.rooms, environment, printer, &async |client| client.end(Duration::ZERO).await)?;
    tidy(environment, printer)
}

/// Removes what only rooms needed that have ended.
fn tidy(environment: &Environment, printer: &Printer) -> Result<u8, Failure> {
    if house::named(environment)?.is_some() {
        return Ok(0);
    }
    let swept = journal(environment, printer)?.sweep_layers();
    swept.map(|_| 0).map_err(|error| of_checkpoint(&error))
}

/// Does `what` to each room and prints its name.
fn each(
    rooms: &[String],
    environment: &Environment,
    printer: &Printer,
    what: &impl AsyncFn(&Client) -> Result<(), ClientError>,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let runtime = engine::runtime()?;
    for room in rooms {
        let (seen, client) = house.living(room)?;
        runtime.block_on(what(&client)).map_err(|error| of_client(&error))?;
        printer.payload(&format!("{}\n", seen.name))?;
    }
    Ok(0)
}

/// Forgets rooms that have ended; those that live are ended first if that is wanted.
pub(crate) fn rm(
    args: &RmArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    for room in &args.rooms {
        let seen = house.find(room)?;
        let name = escape(&seen.name);
        if seen.lives() {
            if !args.force {
                return Err(Failure::new(Code::Room, format!("the room `{name}` lives"))
                    .hint(format!("end it first: bulkhead stop {name}"))
                    .hint(format!("or both at once: bulkhead rm --force {name}")));
            }
            let client = house.client(&seen.id);
            let ended = engine::runtime()?.block_on(client.end(Duration::ZERO));
            ended.map_err(|error| of_client(&error))?;
            house.settle(&seen.id)?;
        }
        house.forget(&seen.id)?;
        printer.payload(&format!("{name}\n"))?;
    }
    tidy(environment, printer)
}

/// Waits until rooms have ended.
pub(crate) fn wait(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    for room in &args.rooms {
        let seen = house.find(room)?;
        while house.find(&seen.id).is_ok_and(|it| it.lives()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        printer.payload(&format!("{}\n", seen.name))?;
    }
    Ok(0)
}

/// Forgets every room that has ended, but those whose disks were kept.
pub(crate) fn prune(
    args: &PruneArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let over = |it: &Seen| !it.lives() && it.keeping == Keeping::Memory;
    for seen in house.list()?.into_iter().filter(over) {
        if !args.dry_run {
            house.forget(&seen.id)?;
        }
        printer.payload(&format!("{}\n", seen.name))?;
    }
    if args.dry_run { Ok(0) } else { tidy(environment, printer) }
}
