//! `bulkhead ls`: which rooms there are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::house::{House, Lives, Seen};
use crate::{
    args::rooms::LsArgs,
    config::Environment,
    engine,
    failure::Failure,
    printer::{Format, Printer},
};

/// Lists the rooms.
pub(crate) fn run(
    args: &LsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let wanted =
        |it: &Seen| (args.all || it.lives()) && args.labels.iter().all(|label| has(it, label));
    let rooms: Vec<Seen> = house.list()?.into_iter().filter(wanted).collect();
    if args.form.quiet {
        for room in &rooms {
            printer.payload(&format!("{}\n", room.name))?;
        }
        return Ok(0);
    }
    let runtime = engine::runtime()?;
    let states: Vec<String> = runtime.block_on(async {
        let mut states = Vec::new();
        for room in &rooms {
            states.push(state(&house, room).await);
        }
        states
    });
    let text = match Format::from(args.form.json) {
        Format::Json => {
            let rooms: Vec<Value> =
                rooms.iter().zip(&states).map(|(it, state)| in_json(it, state)).collect();
            format!("{:#}\n", json!({ "schema_version": 1, "rooms": rooms }))
        }
        Format::Text => table(&rooms, &states),
    };
    printer.payload(&text)?;
    Ok(0)
}

/// Whether a room has the label `KEY` or `KEY=VALUE`; `label=KEY…` is Docker's spelling.
fn has(room: &Seen, label: &str) -> bool {
    let label = label.strip_prefix("label=").unwrap_or(label);
    match label.split_once('=') {
        Some((key, value)) => room.labels.get(key).is_some_and(|it| it == value),
        None => room.labels.contains_key(label),
    }
}

async fn state(house: &House, room: &Seen) -> String {
    match &room.life {
        Lives::No { why, .. } => format!("ended: {why}"),
        Lives::Yes => match house.client(&room.id).inspect().await {
            Ok(info) if info.paused => "paused".to_owned(),
            Ok(_) => "running".to_owned(),
            Err(_) => "starting or ending".to_owned(),
        },
    }
}

fn in_json(room: &Seen, state: &str) -> Value {
    json!({
        "id": room.id,
        "name": room.name,
        "labels": room.labels,
        "made": room.made,
        "backend": room.backend,
        "alive": room.lives(),
        "state": state,
        "workspace": room.workspace,
    })
}

fn table(rooms: &[Seen], states: &[String]) -> String {
    let mut rows = vec![["NAME", "AGE", "STATE", "WORKSPACE"].map(str::to_owned)];
    rows.extend(rooms.iter().zip(states).map(|(room, state)| {
        let workspace = room.workspace.clone().unwrap_or_default();
        [room.name.clone(), age(room.made), state.clone(), workspace]
    }));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [name, age, state, workspace] in &rows {
        let [a, b, c] = widths;
        let line = format!("{name:a$}  {age:b$}  {state:c$}  {workspace}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How long ago, in the largest unit that fits.
pub(super) fn age(made: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.saturating_sub(Duration::from_secs(made)).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
