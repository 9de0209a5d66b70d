//! `bulkhead checkpoint`: the disks of rooms, kept.

use std::time::Duration;

use bulkhead_engine::rooms::{
    Checkpoint, CheckpointError, Client, Journal, Life, Listed, Record,
};
use bulkhead_spec::{Bytes, escape};
use serde_json::{Value, json};

use super::{create::make, end::settle, journal, list::age, of_client, of_journal};
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

/// Does what the verb says.
pub(crate) fn run(
    verb: &CheckpointVerb,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let journal = journal(environment, printer)?;
    journal.sweep_layers().map_err(|error| of_checkpoint(&error))?;
    match verb {
        CheckpointVerb::Create(args) => create(args, &journal, printer),
        CheckpointVerb::Ls(args) => list(args, &journal, printer),
        CheckpointVerb::Restore(args) => restore(args, &journal, printer),
        CheckpointVerb::Rm(args) => remove(args, &journal, printer),
    }
}

fn create(args: &CheckpointArgs, journal: &Journal, printer: &Printer) -> Result<u8, Failure> {
    let room = journal.find(&args.room).map_err(|error| of_journal(&error))?;
    let made = engine::runtime()?.block_on(journal.checkpoint(&room, args.name.as_deref()));
    let made = made.map_err(|error| of_checkpoint(&error))?;
    let text = match Format::from(args.json) {
        Format::Text => format!("{}\n", made.name),
        Format::Json => format!("{:#}\n", in_json(&made)),
    };
    printer.payload(&text)?;
    Ok(0)
}

fn list(args: &FormArgs, journal: &Journal, printer: &Printer) -> Result<u8, Failure> {
    let (found, unreadable) = journal.checkpoints().map_err(|error| of_checkpoint(&error))?;
    for trouble in &unreadable {
        printer.warning(&trouble.to_string());
    }
    let text = if args.quiet {
        found.iter().flat_map(|it| [it.name.as_str(), "\n"]).collect()
    } else {
        match Format::from(args.json) {
            Format::Json => {
                let all: Vec<Value> = found.iter().map(in_json).collect();
                format!("{:#}\n", json!({ "schema_version": 1, "checkpoints": all }))
            }
            Format::Text => table(&found),
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

fn restore(args: &RestoreArgs, journal: &Journal, printer: &Printer) -> Result<u8, Failure> {
    let checkpoint =
        journal.find_checkpoint(&args.checkpoint).map_err(|error| of_checkpoint(&error))?;
    let runtime = engine::runtime()?;
    let Some(name) = &args.name else {
        return runtime.block_on(put_back(&checkpoint, args, journal, printer));
    };
    let record = checkpoint.room(fresh_id()?, name.clone());
    runtime.block_on(make(&record))?;
    printer.payload(&format!("{}\n", record.name))?;
    Ok(0)
}

/// Makes a room of `checkpoint` in the place of the one that it was taken of.
async fn put_back(
    checkpoint: &Checkpoint,
    args: &RestoreArgs,
    journal: &Journal,
    printer: &Printer,
) -> Result<u8, Failure> {
    let mut record = checkpoint.room(fresh_id()?, checkpoint.room.clone());
    let rooms = journal.list().map_err(|error| of_journal(&error))?;
    // The room itself, or one that was put in its place before.
    let alive = |it: &&Listed| it.life == Life::Alive && it.record.name == checkpoint.room;
    let itself = |it: &&Listed| it.record.id == checkpoint.room_id;
    let old = rooms.iter().find(alive).or_else(|| rooms.iter().find(itself));
    if let Some(old) = old {
        let Record { labels, lifetime, keeping, .. } = old.record.clone();
        record = Record { labels, lifetime, keeping, ..record };
        if old.life == Life::Alive {
            end(old, args, journal).await?;
        }
    }
    make(&record).await?;
    if let Some(old) = old {
        journal.forget(&old.record.id).map_err(|error| of_journal(&error))?;
    }
    printer.payload(&format!("{}\n", record.name))?;
    Ok(0)
}

async fn end(old: &Listed, args: &RestoreArgs, journal: &Journal) -> Result<(), Failure> {
    let client = Client::new(journal.socket(&old.record.id));
    let room = client.inspect().await.map_err(|error| of_client(&error))?;
    if !room.paused && !args.force {
        let name = escape(&old.record.name);
        return Err(Failure::new(Code::Room, format!("the room `{name}` runs"))
            .because("to restore its disk ends every program in it")
            .hint(format!("end it first: bulkhead stop {name}"))
            .hint("or both at once: --force")
            .hint("or make a room beside it: --name NAME"));
    }
    client.end(Duration::ZERO).await.map_err(|error| of_client(&error))?;
    settle(journal, old);
    Ok(())
}

fn remove(args: &CheckpointsArgs, journal: &Journal, printer: &Printer) -> Result<u8, Failure> {
    for name in &args.checkpoints {
        journal.remove_checkpoint(name).map_err(|error| of_checkpoint(&error))?;
        printer.payload(&format!("{name}\n"))?;
    }
    Ok(0)
}

fn in_json(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { name, room, room_id, made, bytes, files, backend, layers, .. } =
        checkpoint;
    json!({
        "name": name,
        "room": room,
        "room_id": room_id,
        "made": made,
        "bytes": bytes,
        "files": files,
        "backend": backend,
        "layers": layers,
    })
}

fn table(checkpoints: &[Checkpoint]) -> String {
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
        CheckpointError::Unknown(_) => Failure::from_error(Code::Room, error)
            .hint("`bulkhead checkpoint ls` lists the checkpoints"),
        CheckpointError::Taken(_) => Failure::from_error(Code::Room, error)
            .hint("take another name, or `bulkhead checkpoint rm` it"),
        CheckpointError::Ended(_) => Failure::from_error(Code::Room, error)
            .hint("the disk of a room that was made with --persist stays: start it"),
        CheckpointError::Unreadable { .. } => Failure::from_error(Code::Room, error),
        CheckpointError::System { .. } => Failure::from_error(Code::System, error),
    }
}
