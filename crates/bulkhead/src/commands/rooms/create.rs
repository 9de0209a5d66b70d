//! `bulkhead create`: a room that stays.

use std::{
    io::{self, Read as _, Write as _},
    process::{Command, Stdio},
};

use bulkhead_engine::rooms::{Client, Lifetime, Record, Then};
use serde_json::{Value, json};

use super::{journal, of_client};
use crate::{
    args::rooms::{CreateArgs, LifeArgs, OnTimeout},
    codes::Code,
    commands::run::fresh_id,
    config::{Choice, Environment},
    engine,
    failure::Failure,
    printer::{Format, Printer, Talk},
    wish::{Caller, Wish},
};

/// Makes the room, and starts a program in it if one was named. Prints its name.
pub(crate) fn run(
    args: &CreateArgs,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    printer.talk = Talk::from(&args.ask.talk);
    let journal = journal(&environment, printer)?;
    let mut wish = Wish::of(&args.ask, Caller::default(), environment)?;
    wish.warnings.iter().for_each(|it| printer.warning(it));
    wish.details.iter().for_each(|it| printer.detail(it));
    let id = fresh_id()?;
    let name = args.ask.name.clone().unwrap_or_else(|| id.clone());
    let mut record = Record::new(id.clone(), name.clone(), wish.spec, wish.policy);
    record.labels = args.life.labels.iter().cloned().collect();
    record.lifetime = lifetime(&args.life);
    wish.choice.name().clone_into(&mut record.backend);
    record.runtime = wish.layer.runtime.as_ref().map(|it| it.as_str().to_owned());
    check_text(&record)?;
    if wish.choice == Choice::None {
        printer.alarm("no walls: programs in this room run with all of your rights");
    }
    start_shim(&record)?;
    let client = Client::new(journal.socket(&id));
    let mut program = None;
    if !args.ask.program.is_empty() {
        wish.exec.timeout = None;
        let started = engine::runtime()?.block_on(client.spawn(wish.exec, None));
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

fn lifetime(args: &LifeArgs) -> Lifetime {
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

/// Starts the process that will hold the room, and waits until it does.
#[expect(
    clippy::disallowed_methods,
    reason = "this is Bulkhead itself, not a program of a user"
)]
fn start_shim(record: &Record) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::System, "could not start the shim of the room").because(error)
    };
    let mut shim = Command::new("/proc/self/exe")
        .arg("shim")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let text = serde_json::to_string(record).map_err(|error| failed(error.into()))?;
    if let Some(mut stdin) = shim.stdin.take() {
        stdin.write_all(text.as_bytes()).map_err(failed)?;
    }
    let mut said = String::new();
    if let Some(mut stdout) = shim.stdout.take() {
        stdout.read_to_string(&mut said).map_err(failed)?;
    }
    let answer: Value = serde_json::from_str(said.trim()).unwrap_or_default();
    if answer.get("ready").is_some() {
        return Ok(());
    }
    shim.wait().map_err(failed)?;
    Err(Failure::from_json(&answer).unwrap_or_else(|| {
        failed(io::Error::other("it ended before it could say what is wrong"))
    }))
}
