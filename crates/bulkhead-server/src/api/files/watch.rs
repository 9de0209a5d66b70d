//! What changes in a directory, as it happens.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use bulkhead_engine::rooms::{
    Links,
    tree::{Change, Depth, Item, Kind as FileKind, Record, Records},
};
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::DuplexStream;

use super::{
    super::{
        ask::{Path, Query},
        operation::{Gives, Operation, call},
        problem::{Kind, Problem},
        room::living,
        sse::{Events, Gone},
    },
    whole,
};
use crate::house::House;

/// `GET …/files/watch`
pub(super) fn operation() -> Operation {
    call(
        &Method::GET,
        "/v1/sandboxes/{id}/files/watch",
        (
            "watchFiles",
            "Events `changed` for what changes in a directory, `overflow` for a gap",
        ),
        watch,
    )
    .query::<Watch>()
    .answers(200, Gives::Events)
}

/// What to watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Watch {
    /// The path of a directory; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Whether what lies deeper counts.
    #[serde(default)]
    recursive: bool,
}

async fn watch(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    Query(asked): Query<Watch>,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let facts = client.stat(&path, Links::Follow).await?;
    if facts.kind != FileKind::Dir {
        return Err(Problem::new(Kind::NotAFile, "only directories are watched"));
    }
    let listener = house.listen()?;
    let depth = if asked.recursive { Depth::Everything } else { Depth::Itself };
    let changes = Records::new(client.watch(&path, depth).await?.into_stream());
    let (events, response) = Events::open();
    tokio::spawn(async move {
        tokio::select! {
            told = tell(&events, changes) => drop(told),
            () = events.left() => {}
        }
        drop(listener);
    });
    Ok(response)
}

async fn tell(events: &Events, mut changes: Records<DuplexStream>) -> Result<(), Gone> {
    events.send("watching", None, &json!({})).await?;
    while let Ok(Some(item)) = changes.next().await {
        match item {
            Item::Record(Record::Changed { path, change }) => {
                let change = match change {
                    Change::Made => "made",
                    Change::Written => "written",
                    Change::Set => "set",
                    Change::Removed => "removed",
                    Change::MovedFrom => "moved_from",
                    Change::MovedTo => "moved_to",
                };
                let path = String::from_utf8_lossy(&path);
                let data = json!({ "path": path, "change": change });
                events.send("changed", None, &data).await?;
            }
            Item::Record(Record::Overflow) => {
                events.send("overflow", None, &json!({})).await?;
            }
            Item::Record(Record::End) => break,
            Item::Record(Record::Entry { .. } | Record::FileEnd | Record::Skipped { .. })
            | Item::Bytes(_) => {}
        }
    }
    events.send("ended", None, &json!({})).await
}
