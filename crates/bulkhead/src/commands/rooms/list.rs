//! `bulkhead ls`: which rooms there are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bulkhead_engine::rooms::{Client, Journal, Life, Listed};
use serde_json::{Value, json};

use super::{journal, of_journal, reason};
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
    let journal = journal(environment, printer)?;
    let rooms = journal.list().map_err(|error| of_journal(&error))?;
    let wanted = |it: &Listed| {
        (args.all || it.life == Life::Alive) && args.labels.iter().all(|label| has(it, label))
    };
    let rooms: Vec<Listed> = rooms.into_iter().filter(wanted).collect();
    if args.form.quiet {
        for room in &rooms {
            printer.payload(&format!("{}\n", room.record.name))?;
        }
        return Ok(0);
    }
    let runtime = engine::runtime()?;
    let states: Vec<String> = runtime.block_on(async {
        let mut states = Vec::new();
        for room in &rooms {
            states.push(state(&journal, room).await);
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
fn has(room: &Listed, label: &str) -> bool {
    let label = label.strip_prefix("label=").unwrap_or(label);
    match label.split_once('=') {
        Some((key, value)) => room.record.labels.get(key).is_some_and(|it| it == value),
        None => room.record.labels.contains_key(label),
    }
}

async fn state(journal: &Journal, room: &Listed) -> String {
    match &room.life {
        Life::Ended(end) => format!("ended: {}", reason(&end.why)),
        Life::Alive => match Client::new(journal.socket(&room.record.id)).inspect().await {
            Ok(info) if info.paused => "paused".to_owned(),
            Ok(_) => "running".to_owned(),
            Err(_) => "starting or ending".to_owned(),
        },
    }
}

fn in_json(room: &Listed, state: &str) -> Value {
    let record = &room.record;
    json!({
        "id": record.id,
        "name": record.name,
        "labels": record.labels,
        "made": record.made,
        "backend": record.backend,
        "alive": room.life == Life::Alive,
        "state": state,
        "workspace": record.spec.workspace.as_ref().map(|it| &it.dir),
    })
}

fn table(rooms: &[Listed], states: &[String]) -> String {
    let mut rows = vec![["NAME", "AGE", "STATE", "WORKSPACE"].map(str::to_owned)];
    rows.extend(rooms.iter().zip(states).map(|(room, state)| {
        let workspace = room.record.spec.workspace.as_ref();
        let workspace = workspace.map_or_else(String::new, |it| it.dir.to_string());
        [room.record.name.clone(), age(room.record.made), state.clone(), workspace]
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
