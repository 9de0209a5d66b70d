//! `bulkhead image prune`: remove images that Bulkhead made or unpacked and nothing uses.

use std::time::{Duration, SystemTime};

use bulkhead_image::managed::{Managed, Policy, remove};
use bulkhead_spec::Bytes;
use serde_json::{Value, json};

use super::ls::{self, Keeper};
use crate::{
    args::image::PruneArgs, codes::Code, config::Environment, engine, failure::Failure,
    printer::Printer,
};

/// What is old if nobody says.
const OLD: Duration = Duration::from_hours(30 * 24);

/// Removes, or says what it would.
pub(super) fn run(
    args: &PruneArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let said = args.older_than.map(|it| it.0);
    let usual = (args.max_size.is_none() && !args.all).then_some(OLD);
    let policy = Policy {
        older_than: said.or(usual),
        max_size: args.max_size.map(|it| it.0),
        all: args.all,
    };
    let gone = engine::runtime()?.block_on(async {
        let mut gone: Vec<(&str, Managed, &str)> = Vec::new();
        for shelf in ls::shelves(environment, printer).await? {
            let chosen = policy.choose(&shelf.images, SystemTime::now());
            for image in shelf.images {
                let Some(why) = chosen.get(&image.id) else { continue };
                if !args.dry_run {
                    shelf.keeper.remove(&image.id).await?;
                }
                gone.push((shelf.name, image, why));
            }
        }
        Ok::<_, Failure>(gone)
    })?;
    let size: u64 = gone.iter().map(|(_, it, _)| it.size).sum();
    if args.told.json {
        let images: Vec<Value> = gone.iter().map(|(at, it, _)| ls::in_json(at, it)).collect();
        let all = json!({
            "schema_version": 1, "removed": images, "bytes": size, "dry_run": args.dry_run,
        });
        printer.payload(&format!("{all}\n"))?;
        return Ok(0);
    }
    let line = |(at, it, why): &(&str, Managed, &str)| {
        format!("{} ({why})\n", ls::line(at, it).trim_end())
    };
    printer.payload(&gone.iter().map(line).collect::<Vec<_>>().concat())?;
    let word = if args.dry_run { "would remove" } else { "removed" };
    let count = gone.len();
    printer.note(&format!("{word} {count} images that hold at most {}", Bytes(size)));
    Ok(0)
}

impl Keeper {
    async fn remove(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Daemon(daemon) => remove(&daemon.docker, id)
                .await
                .map_err(|error| Failure::from_error(Code::ImageBuild, &error)),
            Self::Store(images) => {
                images.forget(id).map_err(|error| Failure::from_error(Code::Image, &error))
            }
        }
    }
}
