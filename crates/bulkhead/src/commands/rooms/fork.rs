//! `bulkhead fork`: many rooms that begin where one is.

use std::{collections::BTreeSet, path::Path};

use bulkhead_engine::rooms::{Journal, Listed, Record, fork};
use serde_json::json;

use super::{checkpoint::of_checkpoint, create::of_launch, journal, living, of_journal};
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
    let journal = journal(environment, printer)?;
    let (parent, _) = living(&journal, &args.room)?;
    let prefix = args.name.as_ref().unwrap_or(&parent.record.name);
    let names = names(&journal, prefix, args.count)?;
    let runtime = engine::runtime()?;
    let made = runtime.block_on(make(&journal, &parent, names))?;
    let text = match Format::from(args.json) {
        Format::Text => made.iter().flat_map(|it| [it.name.as_str(), "\n"]).collect(),
        Format::Json => {
            let rooms: Vec<_> =
                made.iter().map(|it| json!({ "id": it.id, "name": it.name })).collect();
            format!("{:#}\n", json!({ "schema_version": 1, "rooms": rooms }))
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Either all of them are there afterwards, or none.
async fn make(
    journal: &Journal,
    parent: &Listed,
    names: Vec<String>,
) -> Result<Vec<Record>, Failure> {
    let snapshot = journal.snapshot_for_fork(parent).await;
    let snapshot = snapshot.map_err(|error| of_checkpoint(&error))?;
    let record = |name| Ok(parent.record.forked(fresh_id()?, name, &snapshot));
    let records: Vec<Record> = names.into_iter().map(record).collect::<Result<_, Failure>>()?;
    let made = fork(Path::new("/proc/self/exe"), journal, &records).await;
    made.map_err(|error| of_launch(&error))?;
    Ok(records)
}

/// `PREFIX-1` and so on, without those that are taken.
fn names(journal: &Journal, prefix: &str, count: u32) -> Result<Vec<String>, Failure> {
    let living = journal.living().map_err(|error| of_journal(&error))?;
    let taken: BTreeSet<String> = living.into_iter().map(|it| it.record.name).collect();
    let all = (1_u32..).map(|at| format!("{prefix}-{at}"));
    let free = all.filter(|it| !taken.contains(it));
    Ok(free.take(usize::try_from(count).unwrap_or(usize::MAX)).collect())
}
