//! `bulkhead inspect`, `stats`: what a room is and what it uses.

use bulkhead_engine::rooms::Stats;
use bulkhead_spec::Bytes;
use serde_json::{Value, json};

use super::{
    house::{House, Lives, Seen},
    of_client,
};
use crate::{
    args::rooms::{OneArgs, StatsArgs},
    config::Environment,
    engine,
    failure::Failure,
    printer::{Format, Printer},
};

/// Shows everything about a room, as JSON.
pub(crate) fn inspect(
    args: &OneArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let seen = house.find(&args.room)?;
    let shown = match &seen.life {
        Lives::No { at, why } => json!({
            "id": seen.id,
            "name": seen.name,
            "labels": seen.labels,
            "made": seen.made,
            "alive": false,
            "ended": at,
            "why": why,
        }),
        Lives::Yes => {
            let client = house.client(&seen.id);
            let seen = engine::runtime()?
                .block_on(async { Ok((client.inspect().await?, client.programs().await?)) });
            let (room, programs) = seen.map_err(|error| of_client(&error))?;
            json!({ "alive": true, "room": room, "programs": programs })
        }
    };
    printer.payload(&format!("{shown:#}\n"))?;
    Ok(0)
}

/// Shows what rooms use.
pub(crate) fn stats(
    args: &StatsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let mut rooms = Vec::new();
    if args.rooms.is_empty() {
        for seen in house.list()?.into_iter().filter(Seen::lives) {
            rooms.push((seen.name, house.client(&seen.id)));
        }
    }
    for room in &args.rooms {
        let (seen, client) = house.living(room)?;
        rooms.push((seen.name, client));
    }
    let mut seen = Vec::new();
    let runtime = engine::runtime()?;
    for (name, client) in rooms {
        let stats = runtime.block_on(client.stats()).map_err(|error| of_client(&error))?;
        seen.push((name, stats));
    }
    let text = match Format::from(args.json) {
        Format::Json => {
            let rooms: Vec<Value> = seen
                .iter()
                .map(|(name, stats)| json!({ "name": name, "stats": stats }))
                .collect();
            format!("{:#}\n", json!({ "schema_version": 1, "rooms": rooms }))
        }
        Format::Text => table(&seen),
    };
    printer.payload(&text)?;
    Ok(0)
}

fn table(rooms: &[(String, Stats)]) -> String {
    let mut text = format!(
        "{:24}  {:>10}  {:>12}  {:>12}  {:>12}  PROGRAMS\n",
        "NAME", "CPU", "MEMORY", "PEAK", "LIMIT"
    );
    let size =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |it| Bytes(it).to_string());
    for (name, stats) in rooms {
        let cpu = stats.cpu_seconds.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}s"));
        let now = size(stats.memory);
        let (peak, limit) = (size(stats.memory_peak), size(stats.memory_limit));
        let programs = stats.programs;
        let line =
            format!("{name:24}  {cpu:>10}  {now:>12}  {peak:>12}  {limit:>12}  {programs}\n");
        text.push_str(&line);
    }
    text
}
