//! What changes in a directory of a room.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use axum::response::Response;
use bulkhead_engine::rooms::tree::{Change, Depth, Item, Record, Records};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{io::DuplexStream, task::AbortHandle};

use super::{
    Call,
    connect::{Code, Gone, RpcError, Stream, first, message, ping},
    filesystem::{directory, look, trouble},
};
use crate::{locked::locked, random};

/// The most events that wait for a watcher that does not come for them.
const MOST: usize = 10_000;

/// The watchers of one room that come for their events.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<BTreeMap<String, Watcher>>);

#[derive(Debug)]
struct Watcher {
    events: Arc<Mutex<VecDeque<Value>>>,
    task: AbortHandle,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watch {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    include_entry: bool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A watch on a directory, and the directory.
async fn begin(
    call: &Call,
    wanted: &Watch,
) -> Result<(String, Records<DuplexStream>), RpcError> {
    let path = directory(call, &wanted.path).await?;
    let depth = if wanted.recursive { Depth::Everything } else { Depth::Itself };
    let watch = call.tenant.client.watch(path.as_bytes(), depth).await;
    let watch = watch.map_err(|error| trouble(&error, &path))?;
    Ok((path, Records::new(watch.into_stream())))
}

/// The next change as an event; nothing when there are no more.
async fn next(
    call: &Call,
    dir: &str,
    records: &mut Records<DuplexStream>,
    entries: Entries,
) -> Option<Value> {
    loop {
        match records.next().await.ok()?? {
            Item::Record(Record::Changed { path, change }) => {
                let name = String::from_utf8_lossy(&path).into_owned();
                let (kind, there) = match change {
                    Change::Made | Change::MovedTo => ("EVENT_TYPE_CREATE", true),
                    Change::Written => ("EVENT_TYPE_WRITE", true),
                    Change::Set => ("EVENT_TYPE_CHMOD", true),
                    Change::Removed => ("EVENT_TYPE_REMOVE", false),
                    Change::MovedFrom => ("EVENT_TYPE_RENAME", false),
                };
                let mut event = json!({ "name": name, "type": kind });
                if entries == Entries::Shown && there {
                    let whole = format!("{}/{name}", dir.trim_end_matches('/'));
                    if let (Ok(entry), Some(event)) =
                        (look(call, &whole).await, event.as_object_mut())
                    {
                        event.insert("entry".to_owned(), entry);
                    }
                }
                return Some(event);
            }
            Item::Record(Record::End) => return None,
            Item::Record(
                Record::Entry { .. }
                | Record::FileEnd
                | Record::Skipped { .. }
                | Record::Overflow,
            )
            | Item::Bytes(_) => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entries {
    Shown,
    Left,
}

impl From<bool> for Entries {
    fn from(wanted: bool) -> Self {
        if wanted { Self::Shown } else { Self::Left }
    }
}

/// Sends events as they come, for as long as the client listens.
pub(super) async fn stream(call: &Call) -> Result<Response, RpcError> {
    let wanted: Watch = first(&call.body)?;
    let (dir, mut records) = begin(call, &wanted).await?;
    let (stream, response) = Stream::open();
    let binding = call.wire.as_ref().map(|it| call.tenant.bind(it.clone()));
    let (call, every) = (call.again(), ping(&call.headers));
    tokio::spawn(async move {
        let told = async {
            stream.send(&json!({ "start": {} })).await?;
            let mut tick = tokio::time::interval(every);
            tick.tick().await;
            loop {
                let event = next(&call, &dir, &mut records, wanted.include_entry.into());
                tokio::pin!(event);
                let event = loop {
                    tokio::select! {
                        event = &mut event => break event,
                        _ = tick.tick() => stream.send(&json!({ "keepalive": {} })).await?,
                        () = stream.left() => return Err(Gone),
                    }
                };
                let Some(event) = event else { return Ok(()) };
                stream.send(&json!({ "filesystem": event })).await?;
            }
        };
        let told: Result<(), Gone> = told.await;
        drop(binding);
        if told.is_ok() {
            stream.end(None).await;
        }
    });
    Ok(response)
}

/// Begins to gather events.
pub(super) async fn create(call: &Call) -> Result<Value, RpcError> {
    let wanted: Watch = message(&call.body)?;
    let (dir, mut records) = begin(call, &wanted).await?;
    let id =
        random::word(16).map_err(|error| RpcError::new(Code::Internal, error.to_string()))?;
    let events = Arc::new(Mutex::new(VecDeque::new()));
    let (call_again, gathered) = (call.again(), Arc::clone(&events));
    let task = tokio::spawn(async move {
        let entries = Entries::from(wanted.include_entry);
        while let Some(event) = next(&call_again, &dir, &mut records, entries).await {
            let mut events = locked(&gathered);
            if MOST <= events.len() {
                events.pop_front();
            }
            events.push_back(event);
        }
    });
    let watcher = Watcher { events, task: task.abort_handle() };
    locked(&call.tenant.watchers.0).insert(id.clone(), watcher);
    Ok(json!({ "watcherId": id }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    watcher_id: String,
}

/// What has come since the last time.
pub(super) fn events(call: &Call) -> Result<Value, RpcError> {
    let Known { watcher_id } = message(&call.body)?;
    let watchers = locked(&call.tenant.watchers.0);
    let watcher = watchers.get(&watcher_id).ok_or_else(|| unknown(&watcher_id))?;
    let events: Vec<Value> = locked(&watcher.events).drain(..).collect();
    Ok(json!({ "events": events }))
}

/// Gathers no more.
pub(super) fn remove(call: &Call) -> Result<Value, RpcError> {
    let Known { watcher_id } = message(&call.body)?;
    let removed = locked(&call.tenant.watchers.0).remove(&watcher_id);
    removed.map(|_| json!({})).ok_or_else(|| unknown(&watcher_id))
}

fn unknown(id: &str) -> RpcError {
    RpcError::new(Code::NotFound, format!("watcher with id {id} not found"))
}
