//! `bulkhead checkpoint`: the disks of rooms, kept.

use std::path::Path;

use bulkhead::{
    Remote,
    words::{CheckpointInfo, CheckpointPage, NewCheckpoint, RestoreAsked, SandboxInfo},
};
use bulkhead_engine::rooms::{
    Checkpoint, CheckpointError, Journal, Record, RestoreError, Running,
};
use bulkhead_spec::{Bytes, escape};
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    create::{ITSELF, make, of_launch, usual},
    house::{House, of_server},
    list::age,
    of_client, of_journal,
};
use crate::{
    args::{
        checkpoints::{CheckpointArgs, CheckpointVerb, CheckpointsArgs, RestoreArgs},
        rooms::FormArgs,
    },
    codes::Code,
    commands::run::fresh_id,
    config::Environment,
    engine,
    failure::Failure,
    printer::{Format, Printer},
};

/// A checkpoint, wherever it is; as it is written in JSON.
#[derive(Serialize)]
struct Kept {
    name: String,
    room: String,
    room_id: String,
    /// Seconds since 1970.
    made: u64,
    bytes: u64,
    files: u64,
    backend: String,
    layers: Vec<String>,
}

/// Does what the verb says.
pub(crate) fn run(
    verb: &CheckpointVerb,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    if let House::Here(rooms) = &house {
        // Who needs a layer is told by all rooms.
        rooms.look_around()?;
        rooms.journal.sweep_layers().map_err(|error| of_checkpoint(&error))?;
    }
    match verb {
        CheckpointVerb::Create(args) => create(args, &house, printer),
        CheckpointVerb::Ls(args) => list(args, &house, printer),
        CheckpointVerb::Restore(args) => {
            let name = match &house {
                House::Here(rooms) => restore_here(args, &rooms.journal, environment)?,
                House::There(remote) => restore_there(args, remote)?,
            };
            printer.payload(&format!("{name}\n"))?;
            Ok(0)
        }
        CheckpointVerb::Rm(args) => remove(args, &house, printer),
    }
}

fn create(args: &CheckpointArgs, house: &House, printer: &Printer) -> Result<u8, Failure> {
    let runtime = engine::runtime()?;
    let made = match house {
        House::Here(rooms) => {
            let room = rooms.find(&args.room)?;
            let itself = Path::new(ITSELF);
            let made = rooms.journal.checkpoint(itself, &room, args.name.as_deref());
            let made = runtime.block_on(made);
            here(made.map_err(|error| of_checkpoint(&error))?)
        }
        House::There(remote) => {
            let room = house.find(&args.room)?;
            let path = format!("/v1/sandboxes/{}/checkpoints", room.id);
            let asked = NewCheckpoint { name: args.name.clone() };
            let made = runtime.block_on(remote.ask(&Method::POST, &path, Some(&asked)));
            there(made.map_err(|error| of_server(&error))?)
        }
    };
    let text = match Format::from(args.json) {
        Format::Text => format!("{}\n", made.name),
        Format::Json => format!("{:#}\n", json!(made)),
    };
    printer.payload(&text)?;
    Ok(0)
}

fn list(args: &FormArgs, house: &House, printer: &Printer) -> Result<u8, Failure> {
    let found: Vec<Kept> = match house {
        House::Here(rooms) => {
            let found = rooms.journal.checkpoints().map_err(|error| of_checkpoint(&error))?;
            for trouble in &found.1 {
                printer.warning(&trouble.to_string());
            }
            found.0.into_iter().map(here).collect()
        }
        House::There(remote) => engine::runtime()?.block_on(pages(remote))?,
    };
    let text = if args.quiet {
        found.iter().flat_map(|it| [it.name.as_str(), "\n"]).collect()
    } else {
        match Format::from(args.json) {
            Format::Json => {
                let all: Vec<Value> = found.iter().map(|it| json!(it)).collect();
                format!("{:#}\n", json!({ "schema_version": 1, "checkpoints": all }))
            }
            Format::Text => table(&found),
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Every checkpoint of a server.
async fn pages(remote: &Remote) -> Result<Vec<Kept>, Failure> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let next = cursor.map(|it| format!("?cursor={it}")).unwrap_or_default();
        let path = format!("/v1/checkpoints{next}");
        let page = remote.ask(&Method::GET, &path, None::<&()>).await;
        let page: CheckpointPage = page.map_err(|error| of_server(&error))?;
        all.extend(page.checkpoints.into_iter().map(there));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

/// Makes a room of a checkpoint on this host, and returns its name.
fn restore_here(
    args: &RestoreArgs,
    journal: &Journal,
    environment: &Environment,
) -> Result<String, Failure> {
    let (admission, quota) = usual(environment)?;
    let checkpoint =
        journal.find_checkpoint(&args.checkpoint).map_err(|error| of_checkpoint(&error))?;
    let runtime = engine::runtime()?;
    let id = fresh_id()?;
    if let Some(name) = &args.name {
        let record = Record { quota, ..checkpoint.room(id, name.clone()) };
        runtime.block_on(make(&admission, &record))?;
        return Ok(record.name);
    }
    let running = if args.force { Running::Ends } else { Running::Stays };
    let record = Record { quota, ..checkpoint.room(id, checkpoint.room.clone()) };
    let by = (Path::new(ITSELF), &admission);
    let made = runtime.block_on(journal.put_back(by, &checkpoint, record, running));
    made.map(|it| it.name).map_err(|error| of_restore(&error))
}

/// Has a server do the same.
fn restore_there(args: &RestoreArgs, remote: &Remote) -> Result<String, Failure> {
    let path = format!("{}/restore", at(&args.checkpoint)?);
    let asked = RestoreAsked { name: args.name.clone(), force: Some(args.force) };
    let made = engine::runtime()?.block_on(remote.ask(&Method::POST, &path, Some(&asked)));
    let made: SandboxInfo = made.map_err(|error| of_server(&error))?;
    Ok(made.name)
}

fn remove(args: &CheckpointsArgs, house: &House, printer: &Printer) -> Result<u8, Failure> {
    for name in &args.checkpoints {
        match house {
            House::Here(rooms) => {
                let removed = rooms.journal.remove_checkpoint(name);
                removed.map_err(|error| of_checkpoint(&error))?;
            }
            House::There(remote) => {
                let path = at(name)?;
                let told = remote.tell(&Method::DELETE, &path);
                let told = engine::runtime()?.block_on(told);
                told.map_err(|error| of_server(&error))?;
            }
        }
        printer.payload(&format!("{name}\n"))?;
    }
    Ok(0)
}

/// Where a server has the checkpoint `name`.
fn at(name: &str) -> Result<String, Failure> {
    if !super::house::is_whole(name) {
        let error = CheckpointError::Unknown(name.to_owned());
        return Err(of_checkpoint(&error));
    }
    Ok(format!("/v1/checkpoints/{name}"))
}

fn here(checkpoint: Checkpoint) -> Kept {
    let Checkpoint { name, room, room_id, made, bytes, files, backend, layers, .. } =
        checkpoint;
    Kept { name, room, room_id, made, bytes, files, backend, layers }
}

fn there(checkpoint: CheckpointInfo) -> Kept {
    let made = bulkhead_server::seconds_of(&checkpoint.created_at).unwrap_or(0);
    let CheckpointInfo { name, sandbox, sandbox_id, bytes, files, backend, layers, .. } =
        checkpoint;
    Kept { name, room: sandbox, room_id: sandbox_id, made, bytes, files, backend, layers }
}

fn table(checkpoints: &[Kept]) -> String {
    let mut rows = vec![["NAME", "AGE", "SIZE", "FILES", "ROOM"].map(str::to_owned)];
    rows.extend(checkpoints.iter().map(|it| {
        let size = Bytes(it.bytes).to_string();
        [it.name.clone(), age(it.made), size, it.files.to_string(), it.room.clone()]
    }));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
    };
    let [a, b, c, d] = [width(0), width(1), width(2), width(3)];
    let mut text = String::new();
    for [name, age, size, files, room] in &rows {
        let line = format!("{name:a$}  {age:b$}  {size:c$}  {files:d$}  {room}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Why there is no checkpoint, for people.
pub(super) fn of_checkpoint(error: &CheckpointError) -> Failure {
    match error {
        CheckpointError::Journal(error) => of_journal(error),
        CheckpointError::Room(error) => of_client(error),
        CheckpointError::Launch(error) => of_launch(error),
        CheckpointError::Unknown(_) => Failure::from_error(Code::Room, error)
            .hint("`bulkhead checkpoint ls` lists the checkpoints"),
        CheckpointError::Taken(_) => Failure::from_error(Code::Room, error)
            .hint("take another name, or `bulkhead checkpoint rm` it"),
        CheckpointError::Ended(_) => Failure::from_error(Code::Room, error)
            .hint("pause a room whose disk is still wanted, instead of ending it")
            .hint("the disk of a room that was made with --persist stays"),
        CheckpointError::Unreadable { .. } => Failure::from_error(Code::Room, error),
        CheckpointError::System { .. } => Failure::from_error(Code::System, error),
    }
}

fn of_restore(error: &RestoreError) -> Failure {
    match error {
        RestoreError::Journal(error) => of_journal(error),
        RestoreError::Room(error) => of_client(error),
        RestoreError::Launch(error) => of_launch(error),
        RestoreError::Runs(name) => {
            let name = escape(name);
            Failure::from_error(Code::Room, error)
                .because("to restore its disk ends every program in it")
                .hint(format!("end it first: bulkhead stop {name}"))
                .hint("or both at once: --force")
                .hint("or make a room beside it: --name NAME")
        }
    }
}
