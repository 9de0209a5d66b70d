//! What a program says, once or as it comes.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bulkhead_engine::{
    room::{From, Which},
    rooms::{Attached, Client, ProgramInfo, Reply},
};
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    ask::{Path, Query},
    operation::{Operation, call},
    problem::{Kind, Problem},
    programs::program_of,
    room::living,
    sse::{Events, Gone, last_seen, wanted},
    view,
    words::{LogEntry, Logs},
};
use crate::house::House;

/// `GET …/output`
pub(super) fn operation() -> Operation {
    call(
        &Method::GET,
        "/v1/sandboxes/{id}/programs/{program}/output",
        (
            "getOutput",
            "What a program said; with `Accept: text/event-stream` also what it says",
        ),
        output,
    )
    .gives_or_tells::<LogEntry>()
}

/// `GET …/logs`
pub(super) fn logs_operation() -> Operation {
    call(
        &Method::GET,
        "/v1/sandboxes/{id}/logs",
        ("getLogs", "What the programs of a sandbox said, as far as it is still there"),
        logs,
    )
    .query::<Only>()
    .gives::<Logs>(200)
}

/// Which programs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Only {
    /// Only this one; all if not said.
    program: Option<u32>,
}

async fn logs(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    Query(which): Query<Only>,
) -> Result<Answer<Logs>, Problem> {
    let (_, client) = living(&house, &id)?;
    let mut programs = client.programs().await?;
    if let Some(program) = which.program {
        programs.retain(|it| it.id == program);
        if programs.is_empty() {
            let text = format!("the sandbox has no program {program}");
            return Err(Problem::new(Kind::ProgramNotFound, text));
        }
    }
    let mut entries = Vec::new();
    for program in &programs {
        entries.push(entry(&client, program).await?);
    }
    Ok(Answer(Logs { entries }))
}

/// What is there of what one program said.
async fn entry(client: &Client, program: &ProgramInfo) -> Result<LogEntry, Problem> {
    let mut attached = client.output(program.id).await?;
    let (mut stdout, mut stderr, mut lost_bytes) = (Vec::new(), Vec::new(), 0);
    let running = loop {
        match attached.ear.next().await? {
            Reply::Said(Which::Stdout, bytes) => stdout.extend(bytes),
            Reply::Said(Which::Stderr, bytes) => stderr.extend(bytes),
            Reply::Lost(bytes) => lost_bytes += bytes,
            Reply::Running => break true,
            Reply::Ended(..) => break false,
        }
    };
    Ok(LogEntry {
        program: program.id,
        tag: program.tag.clone(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        lost_bytes,
        running,
    })
}

async fn output(
    State(house): State<Arc<House>>,
    Path((id, program)): Path<(String, u32)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let info = program_of(&client, program).await?;
    if !wanted(&headers) {
        return Ok(Answer(entry(&client, &info).await?).into_response());
    }
    let listener = house.listen()?;
    let seen = last_seen(&headers).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    let attached = client.overhear(program, From::Start).await?;
    let (events, response) = Events::open();
    tokio::spawn(async move {
        let told = tell(&events, attached, seen);
        tokio::select! {
            told = told => drop(told),
            () = events.left() => {}
        }
        drop(listener);
    });
    Ok(response)
}

/// Passes on what a program says. The id of an event is how much had been said after it, so that
/// who lost the connection goes on where it broke.
async fn tell(events: &Events, mut attached: Attached, seen: u64) -> Result<(), Gone> {
    let mut at: u64 = 0;
    loop {
        match attached.ear.next().await {
            Ok(Reply::Said(which, bytes)) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let skip = usize::try_from(seen.saturating_sub(at).min(length));
                at = at.saturating_add(length);
                let rest = bytes.get(skip.unwrap_or(0)..).unwrap_or_default();
                if rest.is_empty() {
                    continue;
                }
                let name = match which {
                    Which::Stdout => "stdout",
                    Which::Stderr => "stderr",
                };
                let data = json!({ "data": STANDARD.encode(rest) });
                events.send(name, Some(&at.to_string()), &data).await?;
            }
            Ok(Reply::Lost(bytes)) => {
                let before = at;
                at = at.saturating_add(bytes);
                let missed = at.saturating_sub(before.max(seen));
                if 0 < missed {
                    let data = json!({ "bytes": missed });
                    events.send("lost", Some(&at.to_string()), &data).await?;
                }
            }
            Ok(Reply::Running) => return Ok(()),
            Ok(Reply::Ended(Ok(ending), wall)) => {
                let ending = view::ending(&ending);
                let data = json!({ "ending": ending, "duration_seconds": wall.as_secs_f64() });
                return events.send("ended", Some(&at.to_string()), &data).await;
            }
            Ok(Reply::Ended(Err(trouble), _)) => {
                let problem = Problem::new(Kind::SandboxEnded, trouble).view();
                return events.send("problem", None, &problem).await;
            }
            Err(error) => {
                return events.send("problem", None, &Problem::from(error).view()).await;
            }
        }
    }
}
