//! `bulkhead run --name NAME --keep`: a run whose room stays.

use bulkhead_engine::{
    room::From,
    rooms::{Attached, Client, Life, ProgramInfo},
};
use bulkhead_spec::Exec;

use super::{
    create::{admission, make, recorded, wished},
    exec::tell,
    here::Here,
    join::join,
    of_client,
};
use crate::{
    args::run::Ask, config::Environment, console, engine, failure::Failure, printer::Printer,
    wish::Caller,
};

/// How the program of a run is called in its room.
const TAG: &str = "run";

/// Runs the program in the room `name`, which is made if it is not there. A program of a run that
/// still runs there is joined instead.
pub(crate) fn run(
    ask: &Ask,
    name: &str,
    environment: Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let rooms = Here::open(&environment, printer)?;
    let mut caller = console::look(&ask.console)?;
    let runtime = engine::runtime()?;
    let wish = runtime.block_on(wished(ask, caller, environment, printer))?;
    let ended = runtime.block_on(async {
        let client = if let Some(client) = living(&rooms, name)? {
            client
        } else {
            let record = recorded(&wish, Some(name.to_owned()), printer)?;
            make(&admission(&wish)?, &record).await?;
            Client::new(rooms.journal.socket(&record.id))
        };
        let attached = start_or_join(&client, wish.exec, &mut caller, printer).await?;
        let joined = join(&client, attached, caller, printer).await?;
        tell(joined, printer)
    });
    runtime.shutdown_background();
    ended
}

/// The room of exactly this name, if it lives.
fn living(rooms: &Here, name: &str) -> Result<Option<Client>, Failure> {
    if rooms.journal.called(name).is_none_or(|it| it.record.name != name) {
        return Ok(None);
    }
    let found = rooms.find(name)?;
    let lives = found.life == Life::Alive;
    Ok(lives.then(|| Client::new(rooms.journal.socket(&found.record.id))))
}

async fn start_or_join(
    client: &Client,
    exec: Exec,
    caller: &mut Caller,
    printer: &Printer,
) -> Result<Attached, Failure> {
    let programs = client.programs().await.map_err(|error| of_client(&error))?;
    let runs = |it: &ProgramInfo| it.running && it.tag.as_deref() == Some(TAG);
    let Some(program) = programs.into_iter().rev().find(runs) else {
        let started = client.exec(exec, Some(TAG.to_owned())).await;
        return started.map_err(|error| of_client(&error));
    };
    if !program.terminal {
        caller.terminal = None;
    }
    printer.note("it still runs in this room: joined");
    let attached = client.attach(program.id, From::Start).await;
    attached.map_err(|error| of_client(&error))
}
