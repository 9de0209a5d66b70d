//! `bulkhead pause`, `resume`, `stop`, `kill`, `rm`, `wait`, `prune`.

use std::time::Duration;

use bulkhead_engine::rooms::{Client, ClientError, Keeping, Life};
use bulkhead_spec::escape;

use super::{
    checkpoint::of_checkpoint,
    create::{make, usual},
    here::Here,
    house::{House, Seen},
    of_client,
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
    let house = House::open(environment, printer)?;
    each(&args.rooms, &house, printer, &async |client| client.pause().await)
}

/// Lets them go on.
pub(crate) fn resume(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    each(&args.rooms, &house, printer, &async |client| client.resume().await)
}

/// Starts rooms again that have ended and whose disks were kept.
pub(crate) fn start(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let rooms = Here::open(environment, printer)?;
    let runtime = engine::runtime()?;
    for room in &args.rooms {
        let listed = rooms.find(room)?;
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
    end(&args.rooms, args.time.0, environment, printer)
}

/// Ends rooms, now.
pub(crate) fn kill(
    args: &RoomsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    end(&args.rooms, Duration::ZERO, environment, printer)
}

fn end(
    rooms: &[String],
    grace: Duration,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let mut gone = Vec::new();
    for room in rooms {
        let (seen, _) = house.living(room)?;
        end_one(&house, &seen.id, grace)?;
        printer.payload(&format!("{}\n", seen.name))?;
        gone.push(seen);
    }
    tidy(&house, &gone)
}

/// Ends a room. Somebody else may end it at the same time, which is as good.
fn end_one(house: &House, id: &str, grace: Duration) -> Result<(), Failure> {
    let ended = engine::runtime()?.block_on(house.client(id).end(grace));
    if let Err(ClientError::Gone(_)) = &ended {
        house.settle(id)?;
        if !house.find(id).is_ok_and(|it| it.lives()) {
            return Ok(());
        }
    }
    ended.map_err(|error| of_client(&error))
}

/// Removes what only `gone` rooms needed. Whether others need it takes a look at all of them, so
/// this is left out where they began with nothing.
fn tidy(house: &House, gone: &[Seen]) -> Result<u8, Failure> {
    if gone.iter().all(|it| it.layers.is_empty()) { Ok(0) } else { sweep(house) }
}

/// Removes what no room needs any more, nor ever will.
fn sweep(house: &House) -> Result<u8, Failure> {
    let House::Here(rooms) = house else { return Ok(0) };
    rooms.journal.sweep_layers().map(|_| 0).map_err(|error| of_checkpoint(&error))
}

/// Does `what` to each room and prints its name.
fn each(
    rooms: &[String],
    house: &House,
    printer: &Printer,
    what: &impl AsyncFn(&Client) -> Result<(), ClientError>,
) -> Result<u8, Failure> {
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
    let mut gone = Vec::new();
    for room in &args.rooms {
        let seen = house.find(room)?;
        let name = escape(&seen.name);
        if seen.lives() {
            if !args.force {
                return Err(Failure::new(Code::Room, format!("the room `{name}` lives"))
                    .hint(format!("end it first: bulkhead stop {name}"))
                    .hint(format!("or both at once: bulkhead rm --force {name}")));
            }
            end_one(&house, &seen.id, Duration::ZERO)?;
            house.settle(&seen.id)?;
        }
        house.forget(&seen.id)?;
        printer.payload(&format!("{name}\n"))?;
        gone.push(seen);
    }
    tidy(&house, &gone)
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
    if args.dry_run { Ok(0) } else { sweep(&house) }
}
