//! Snapshots of rooms, and copies of rooms.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    response::Response,
    routing::{get, post},
};
use bulkhead_engine::rooms::CheckpointError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    control::{TIMEOUT, bounded, internal, parsed, refused, tenant},
    error::{ApiError, json_body},
    filter::pairs,
    objects::sandbox,
    page::{page, said},
};
use crate::{
    house::{Facts, House, Tenant},
    random,
    templates::{DEFAULT, Template, Version, is_name, uuid},
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

/// The most copies at once.
const COPIES: u32 = 20;

pub(super) fn router() -> Router<Arc<House>> {
    Router::new()
        .route("/sandboxes/{id}/snapshots", post(take))
        .route("/sandboxes/{id}/fork", post(fork))
        .route("/snapshots", get(list))
}

#[derive(Deserialize)]
struct Take {
    name: Option<String>,
    memory: Option<bool>,
}

async fn take(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let Take { name, memory } = parsed(&body)?;
    tenant(&house, &id)?;
    if memory == Some(true) {
        let message = "a snapshot holds the disk of a sandbox here, not its memory";
        return Err(ApiError::new(400, message));
    }
    let name = name.map(|it| it.to_lowercase());
    if let Some(name) = &name
        && !is_name(name)
    {
        return Err(ApiError::new(400, format!("'{name}' cannot be the name of a snapshot")));
    }
    let checkpoint = house.checkpoint(&id).await.map_err(|error| failed(&error, &id))?;
    let template_id = match &name {
        Some(name) => house.templates.reserve(name),
        None => random::word(19).map(|it| format!("t{it}")),
    };
    let template = Template {
        id: template_id.map_err(internal)?,
        name,
        tags: BTreeMap::new(),
        snapshot_of: Some(id),
    };
    let version = Version::new(uuid().map_err(internal)?, checkpoint);
    let stale = house.templates.put(&template, &[DEFAULT.to_owned()], &version);
    house.forget_checkpoints(&stale.map_err(internal)?);
    Ok(json_body(201, &object(&template)))
}

fn object(template: &Template) -> Value {
    let names: Vec<_> = template.name.iter().map(|it| format!("{it}:{DEFAULT}")).collect();
    json!({ "snapshotID": template.called(DEFAULT), "names": names })
}

async fn list(State(house): Shared, RawQuery(query): RawQuery) -> Answer {
    let query = pairs(&query.unwrap_or_default());
    let all = house.templates.list().map_err(internal)?;
    let of = said(&query, "sandboxID").or(said(&query, "sandbox_id"));
    let wanted = |it: &&Template| {
        it.snapshot_of.is_some()
            && of.is_none_or(|room| it.snapshot_of.as_deref() == Some(room))
            && said(&query, "name").is_none_or(|name| it.name.as_deref() == Some(name))
    };
    let all: Vec<&Template> = all.iter().filter(wanted).collect();
    page(&query, &all, |it| &it.id, |it| object(it))
}

#[derive(Deserialize)]
struct Fork {
    timeout: Option<u64>,
    count: Option<u32>,
}

async fn fork(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let Fork { timeout, count } = parsed(&body)?;
    let origin = tenant(&house, &id)?;
    let timeout = bounded(timeout.unwrap_or(TIMEOUT))?;
    let count = count.unwrap_or(1);
    if !(1..=COPIES).contains(&count) {
        return Err(ApiError::new(400, format!("count is from 1 to {COPIES}")));
    }
    if origin.is_paused() {
        return Err(ApiError::new(409, format!("sandbox \"{id}\" is paused")));
    }
    let mut copies = Vec::new();
    for _ in 0..count {
        copies.push(copied(&origin)?);
    }
    // What was said about the network since it was made is true of its copies too.
    let now = origin.network();
    let changed = now != origin.facts.network;
    let headers = changed.then(|| now.headers(&house.secrets)).transpose()?;
    let made = house.fork(&origin, &copies, timeout, headers.as_deref()).await;
    let made = made.map_err(|error| match error {
        crate::house::ForkError::Disk(error) => failed(&error, &id),
        crate::house::ForkError::Rooms(error) => refused(&error),
    })?;
    let made = made.iter().map(|it| json!({ "sandbox": sandbox(&house, it) })).collect();
    Ok(json_body(201, &Value::Array(made)))
}

/// What the guests of a copy are promised: the same, by other tokens.
fn copied(origin: &Tenant) -> Result<Facts, ApiError> {
    let facts = &origin.facts;
    let again = |token: &Option<String>| {
        token.as_ref().map(|_| random::token()).transpose().map_err(internal)
    };
    Ok(Facts {
        access: again(&facts.access)?,
        traffic: again(&facts.traffic)?,
        network: origin.network(),
        started: crate::clock::micros(),
        ..facts.clone()
    })
}

fn failed(error: &CheckpointError, id: &str) -> ApiError {
    match error {
        CheckpointError::Ended(_) => ApiError::no_room(id),
        CheckpointError::Room(_) => ApiError::new(400, error.to_string()),
        CheckpointError::Journal(_)
        | CheckpointError::Launch(_)
        | CheckpointError::Unknown(_)
        | CheckpointError::Taken(_)
        | CheckpointError::Unreadable { .. }
        | CheckpointError::System { .. } => internal(error),
    }
}
