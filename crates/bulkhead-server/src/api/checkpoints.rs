//! The disks of sandboxes, kept, and sandboxes that begin with them.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bulkhead_engine::rooms::{Checkpoint, Listed, Running};
use futures_util::{StreamExt as _, stream};
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    ask::{MaybeJson, Path, Query},
    idempotency::Reserved,
    operation::{Operation, call},
    page,
    problem::{Kind, Problem},
    room::{find, is_name, living},
    sandboxes::{made, moment},
    view,
    words::{
        CheckpointInfo, CheckpointPage, ForkAsked, Forked, NewCheckpoint, RestoreAsked,
        SandboxInfo,
    },
};
use crate::{
    clock::rfc3339,
    house::{ForkError, House, Place},
};

type Shared = State<Arc<House>>;

/// The most copies that are made in one call.
const COPIES: u32 = 1000;

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let (get, post) = (&Method::GET, &Method::POST);
    let (all, one) = ("/v1/checkpoints", "/v1/checkpoints/{name}");
    let keeping = "Keep what is on its disk; it stands still meanwhile";
    let restoring = "Make a sandbox of a checkpoint";
    let forking = "Make sandboxes that begin where it is: all of them, or none";
    vec![
        call(post, "/v1/sandboxes/{id}/checkpoints", ("createCheckpoint", keeping), create)
            .may_take::<NewCheckpoint>()
            .gives::<CheckpointInfo>(201)
            .once(),
        call(get, all, ("listCheckpoints", "List checkpoints, page by page"), list)
            .query::<Filter>()
            .gives::<CheckpointPage>(200),
        call(get, one, ("getCheckpoint", "Look at a checkpoint"), show)
            .gives::<CheckpointInfo>(200),
        call(
            &Method::DELETE,
            one,
            ("deleteCheckpoint", "Remove a checkpoint; sandboxes made of it stay"),
            remove,
        )
        .gives_nothing(),
        call(post, "/v1/checkpoints/{name}/restore", ("restoreCheckpoint", restoring), restore)
            .may_take::<RestoreAsked>()
            .gives::<SandboxInfo>(201)
            .once(),
        call(post, "/v1/sandboxes/{id}/fork", ("forkSandbox", forking), fork)
            .may_take::<ForkAsked>()
            .gives::<Forked>(201)
            .once(),
    ]
}

async fn create(
    State(house): Shared,
    Path(id): Path<String>,
    MaybeJson(asked): MaybeJson<NewCheckpoint>,
) -> Result<Response, Problem> {
    let room = find(&house, &id)?;
    let program = &house.base.program;
    let made = house.journal.checkpoint(program, &room, asked.name.as_deref()).await?;
    Ok((StatusCode::CREATED, Answer(info(&made))).into_response())
}

/// Which page of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Filter {
    /// How many at most; 100 if not said.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

async fn list(
    State(house): Shared,
    Query(filter): Query<Filter>,
) -> Result<Answer<CheckpointPage>, Problem> {
    let limit = page::limit(filter.limit)?;
    let after = filter.cursor.as_deref().map(page::position).transpose()?;
    let (mut all, unreadable) = house.journal.checkpoints()?;
    for error in unreadable {
        tracing::warn!(%error, "a checkpoint is not listed");
    }
    all.retain(|it| after.as_ref().is_none_or(|after| *after < (it.made, it.name.clone())));
    let more = limit < all.len();
    all.truncate(limit);
    let last = all.last().filter(|_| more);
    let next_cursor = last.map(|it| page::cursor(it.made, &it.name));
    let checkpoints = all.iter().map(info).collect();
    Ok(Answer(CheckpointPage { checkpoints, next_cursor }))
}

async fn show(
    State(house): Shared,
    Path(name): Path<String>,
) -> Result<Answer<CheckpointInfo>, Problem> {
    Ok(Answer(info(&house.journal.find_checkpoint(&name)?)))
}

async fn remove(State(house): Shared, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    house.journal.remove_checkpoint(&name)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restore(
    State(house): Shared,
    reserved: Reserved,
    Path(name): Path<String>,
    MaybeJson(asked): MaybeJson<RestoreAsked>,
) -> Result<Response, Problem> {
    let running = if asked.force == Some(true) { Running::Ends } else { Running::Stays };
    let place = match asked.name {
        Some(name) if !is_name(&name) => return Err(bad_name()),
        Some(name) => Place::Beside(name),
        None => Place::Back(running),
    };
    let checkpoint = house.journal.find_checkpoint(&name)?;
    let record = house.restore(&checkpoint, &reserved.id()?, place).await?;
    Ok(made(view::of(&house, &find(&house, &record.id)?).await))
}

async fn fork(
    State(house): Shared,
    Path(id): Path<String>,
    MaybeJson(asked): MaybeJson<ForkAsked>,
) -> Result<Response, Problem> {
    let count = asked.count.unwrap_or(1);
    if !(1..=COPIES).contains(&count) {
        return Err(Problem::malformed(format!("`count` is from 1 to {COPIES}")));
    }
    let (origin, _) = living(&house, &id)?;
    let prefix = asked.name.unwrap_or_else(|| origin.record.name.clone());
    // With a number after it, it is still a name.
    if !is_name(&format!("{prefix}-{COPIES}")) {
        return Err(bad_name());
    }
    let names = house.journal.free_names(&prefix, count);
    let records = house.copy(&origin, names).await?;
    let rooms: Result<Vec<Listed>, Problem> =
        records.iter().map(|it| find(&house, &it.id)).collect();
    let house = &*house;
    let views = stream::iter(rooms?).map(|it| async move { view::of(house, &it).await });
    let sandboxes: Vec<SandboxInfo> = views.buffered(16).collect().await;
    Ok((StatusCode::CREATED, Answer(Forked { sandboxes })).into_response())
}

fn bad_name() -> Problem {
    Problem::new(
        Kind::Malformed,
        "`name` has letters, digits, `-`, `_` and `.`, at most 64, a letter or digit first",
    )
}

fn info(checkpoint: &Checkpoint) -> CheckpointInfo {
    let it = checkpoint.clone();
    CheckpointInfo {
        name: it.name,
        sandbox: it.room,
        sandbox_id: it.room_id,
        created_at: rfc3339(moment(it.made)),
        bytes: it.bytes,
        files: it.files,
        backend: it.backend,
        layers: it.layers,
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Disk(error) => error.into(),
            ForkError::Rooms(error) => error.into(),
        }
    }
}
