//! `bulkhead create`: a room that stays.

use std::path::Path;

use bulkhead_backends::container::Product;
use bulkhead_engine::rooms::{
    Admission, Client, Keeping, LaunchError, Lifetime, Quota, Record, Then, launch,
};
use serde_json::json;

mod remote;

use super::{house, journal_in, of_client, pool};
use crate::{
    args::{
        rooms::{CreateArgs, LifeArgs, OnTimeout},
        run::Ask,
    },
    codes::Code,
    commands::{image, run::fresh_id},
    config::{Choice, Config, ConfigError, Environment, Paths, ProjectFrom, Sources, Who},
    engine,
    failure::Failure,
    printer::{Format, Printer, Talk},
    wish::{Caller, Wish},
};

/// Bulkhead itself, whatever its file is called by now.
pub(super) const ITSELF: &str = "/proc/self/exe";

/// Makes the room, and starts a program in it if one was named. Prints its name.
pub(crate) fn run(
    args: &CreateArgs,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    printer.talk = Talk::from(&args.ask.talk);
    if let Some(remote) = house::named(&environment)? {
        return remote::run(args, &remote, &environment, printer);
    }
    let journal = journal_in(&Paths::find(&environment, Who::current()))?;
    let runtime = engine::runtime()?;
    let wished = wished(&args.ask, Caller::default(), environment, printer);
    let mut wish = runtime.block_on(wished)?;
    let mut record = recorded(&wish, args.ask.name.clone(), printer)?;
    record.labels = args.life.labels.iter().cloned().collect();
    record.lifetime = lifetime(&args.life);
    if args.life.persist {
        record.keeping = Keeping::Disk;
    }
    let named = args.ask.name.as_deref();
    let record = runtime.block_on(async {
        match pool::take(&journal, (&record, named), &args.ask).await? {
            Some(taken) => Ok(taken),
            None => make(&admission(&wish)?, &record).await.map(|()| record),
        }
    })?;
    let Record { id, name, .. } = record.clone();
    let client = Client::new(journal.socket(&id));
    if record.keeping == Keeping::Disk {
        let room = runtime.block_on(client.inspect()).map_err(|error| of_client(&error))?;
        if !room.missing.is_empty() {
            printer.note(&format!("not held on this host: {}", room.missing));
        }
    }
    let mut program = None;
    if !args.ask.program.is_empty() {
        wish.exec.timeout = None;
        let started = runtime.block_on(client.spawn(wish.exec, None));
        program = Some(started.map_err(|error| of_client(&error))?);
    }
    let text = match Format::from(args.json) {
        Format::Text => format!("{name}\n"),
        Format::Json => {
            format!("{:#}\n", json!({ "id": id, "name": name, "program": program }))
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// What is wished for; where a daemon is named, in an image of its own.
pub(super) async fn wished(
    ask: &Ask,
    caller: Caller,
    environment: Environment,
    printer: &Printer,
) -> Result<Wish, Failure> {
    let wish = Wish::of(ask, caller, environment)?;
    let product = match wish.choice {
        Choice::Docker => Product::Docker,
        Choice::Podman => Product::Podman,
        Choice::Auto | Choice::Native | Choice::None => return Ok(wish),
    };
    match image::first_use(&wish, product, printer).await? {
        Some(found) => Wish::within(ask, caller, wish.environment, Some(found)),
        None => Ok(wish),
    }
}

/// What is written down of the room that is wished for; told is what its user should know.
pub(super) fn recorded(
    wish: &Wish,
    name: Option<String>,
    printer: &Printer,
) -> Result<Record, Failure> {
    wish.warnings.iter().for_each(|it| printer.warning(it));
    wish.details.iter().for_each(|it| printer.detail(it));
    let id = fresh_id()?;
    let name = name.unwrap_or_else(|| id.clone());
    let mut record = Record::new(id, name, wish.spec.clone(), super::policy(wish));
    wish.choice.name().clone_into(&mut record.backend);
    record.runtime = wish.layer.runtime.as_ref().map(|it| it.as_str().to_owned());
    record.quota = wish.layer.house.quota();
    check_text(&record)?;
    if wish.choice == Choice::None {
        printer.alarm("no walls: programs in this room run with all of your rights");
    }
    Ok(record)
}

/// Makes the room, in the hands of a shim.
pub(super) async fn make(admission: &Admission, record: &Record) -> Result<(), Failure> {
    let launched = launch(Path::new(ITSELF), record, admission).await;
    launched.map_err(|error| of_launch(&error))
}

/// What stands between a wish and its room.
pub(crate) fn admission(wish: &Wish) -> Result<Admission, Failure> {
    let state = wish.paths.state.clone().ok_or(ConfigError::Homeless)?;
    Ok(Admission { reserve: wish.layer.house.reserve(), state })
}

/// What stands between somebody who names a room, or what was kept of one, and another room.
pub(super) fn usual(environment: &Environment) -> Result<(Admission, Quota), Failure> {
    let sources = Sources::of(ProjectFrom::Absent, environment);
    let config = Config::load(environment.clone(), &sources)?;
    let state = config.paths.state.ok_or(ConfigError::Homeless)?;
    let house = config.layer.house;
    Ok((Admission { reserve: house.reserve(), state }, house.quota()))
}

pub(super) fn lifetime(args: &LifeArgs) -> Lifetime {
    let then = match args.on_timeout {
        OnTimeout::Kill => Then::Kill,
        OnTimeout::Pause => Then::Pause,
    };
    Lifetime { ttl: args.ttl, idle: args.idle_timeout, then }
}

/// A room is written down before it is made, and a path that is not text cannot be.
fn check_text(record: &Record) -> Result<(), Failure> {
    let workspace = record.spec.workspace.iter().map(|it| &it.dir);
    let mut paths = workspace.chain(record.spec.mounts.iter().map(|it| &it.from));
    let Some(path) = paths.find(|it| !it.is_text()) else { return Ok(()) };
    let what = format!("cannot make a room on `{path}`");
    Err(Failure::new(Code::Share, what)
        .because("its name is not text in UTF-8")
        .hint("`bulkhead run` can work there"))
}

/// Why the room did not come to be.
pub(super) fn of_launch(error: &LaunchError) -> Failure {
    match error {
        LaunchError::Refused(answer) => Failure::from_json(answer)
            .unwrap_or_else(|| Failure::from_error(Code::System, error)),
        LaunchError::Busy(busy) => Failure::busy(busy),
        LaunchError::System(_) => Failure::from_error(Code::System, error),
    }
}
