//! `bulkhead fork`: many rooms that begin where one is.

use std::path::Path;

use bulkhead::words::{ForkAsked, Forked};
use bulkhead_engine::rooms::{Record, fork};
use http::Method;
use serde_json::{Value, json};

use super::{
    checkpoint::of_checkpoint,
    create::{ITSELF, of_launch, usual},
    here::Here,
    house::{House, of_server},
};
use crate::{
    args::checkpoints::ForkArgs,
    commands::run::fresh_id,
    config::Environment,
    engine,
    failure::Failure,
    printer::{Format, Printer},
};

/// Makes the rooms, and prints their names.
pub(crate) fn run(
    args: &ForkArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let made = match House::open(environment, printer)? {
        House::Here(rooms) => here(args, &rooms, environment)?,
        House::There(remote) => {
            let room = House::There(remote.clone()).find(&args.room)?;
            let asked = ForkAsked { count: Some(args.count), name: args.name.clone() };
            let path = format!("/v1/sandboxes/{}/fork", room.id);
            let made =
                engine::runtime()?.block_on(remote.ask(&Method::POST, &path, Some(&asked)));
            let made: Forked = made.map_err(|error| of_server(&error))?;
            made.sandboxes.into_iter().map(|it| (it.id, it.name)).collect()
        }
    };
    let text = match Format::from(args.json) {
        Format::Text => made.iter().flat_map(|(_, name)| [name.as_str(), "\n"]).collect(),
        Format::Json => {
            let room = |(id, name): &(String, String)| json!({ "id": id, "name": name });
            let rooms: Vec<Value> = made.iter().map(room).collect();
            format!("{:#}\n", json!({ "schema_version": 1, "rooms": rooms }))
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Ids and names of the rooms, which were made on this host: all of them, or none.
fn here(
    args: &ForkArgs,
    rooms: &Here,
    environment: &Environment,
) -> Result<Vec<(String, String)>, Failure> {
    let (admission, _) = usual(environment)?;
    let (journal, parent) = (&rooms.journal, rooms.find(&args.room)?);
    let prefix = args.name.as_ref().unwrap_or(&parent.record.name);
    let names = journal.free_names(prefix, args.count);
    engine::runtime()?.block_on(async {
        let snapshot = journal.snapshot_for_fork(Path::new(ITSELF), &parent).await;
        let snapshot = snapshot.map_err(|error| of_checkpoint(&error))?;
        let record = |name| Ok(parent.record.forked(fresh_id()?, name, &snapshot));
        let records: Vec<Record> =
            names.into_iter().map(record).collect::<Result<_, Failure>>()?;
        let made = fork(Path::new(ITSELF), journal, &records, &admission).await;
        made.map_err(|error| of_launch(&error))?;
        Ok(records.into_iter().map(|it| (it.id, it.name)).collect())
    })
}
