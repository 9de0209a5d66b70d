//! Sandboxes come and go.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bulkhead_engine::rooms::{Client, ClientError, Life, Lifetime, Record, Then};
use bulkhead_spec::Span;
use http::{Method, StatusCode, header::LOCATION};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    ask::{Json, MaybeJson, Path, Query, seconds},
    idempotency::Reserved,
    operation::{Operation, call},
    page::Filter,
    problem::{Kind, Problem},
    room::{find, living},
    view,
    wanted::record,
    words::{LifetimeAsked, NewSandbox, OnTimeout, SandboxInfo, SandboxPage, SandboxStats},
};
use crate::house::House;

type Shared = State<Arc<House>>;

/// How long somebody waits for an end, if they do not say.
const WAIT: f64 = 30.0;
/// The longest that anybody may wait in one call.
const LONGEST_WAIT: f64 = 300.0;

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = lives();
    all.extend(states());
    all
}

/// Calls by which sandboxes come, are seen and go.
fn lives() -> Vec<Operation> {
    let (get, one) = (&Method::GET, "/v1/sandboxes/{id}");
    vec![
        call(&Method::POST, "/v1/sandboxes", ("createSandbox", "Make a sandbox"), create)
            .takes::<NewSandbox>()
            .gives::<SandboxInfo>(201)
            .once(),
        call(get, "/v1/sandboxes", ("listSandboxes", "List sandboxes, page by page"), list)
            .query::<Filter>()
            .gives::<SandboxPage>(200),
        call(get, one, ("getSandbox", "Look at a sandbox"), show).gives::<SandboxInfo>(200),
        call(
            &Method::PATCH,
            one,
            ("updateSandbox", "Set how long it lives from now on"),
            update,
        )
        .takes::<LifetimeAsked>()
        .gives::<SandboxInfo>(200),
        call(&Method::DELETE, one, ("deleteSandbox", "End a sandbox and forget it"), delete)
            .query::<Grace>()
            .gives_nothing(),
        call(get, "/v1/sandboxes/{id}/stats", ("getSandboxStats", "What it has used"), stats)
            .gives::<SandboxStats>(200),
    ]
}

/// Calls by which they change.
fn states() -> Vec<Operation> {
    let post = &Method::POST;
    let stopping = "End a sandbox; what became of it can still be asked";
    let keeping = "Let it live at least so long; never shorter than before";
    let waiting = "Wait until it has ended, or the time is over";
    vec![
        call(post, "/v1/sandboxes/{id}/stop", ("stopSandbox", stopping), stop)
            .query::<Grace>()
            .gives::<SandboxInfo>(200),
        call(post, "/v1/sandboxes/{id}/pause", ("pauseSandbox", "Freeze its programs"), pause)
            .gives::<SandboxInfo>(200),
        call(post, "/v1/sandboxes/{id}/resume", ("resumeSandbox", "Let them go on"), resume)
            .gives::<SandboxInfo>(200),
        call(post, "/v1/sandboxes/{id}/keep-alive", ("keepSandboxAlive", keeping), keep_alive)
            .may_take::<KeepAlive>()
            .gives::<SandboxInfo>(200),
        call(&Method::GET, "/v1/sandboxes/{id}/wait", ("waitForSandbox", waiting), wait)
            .query::<Wait>()
            .gives::<SandboxInfo>(200),
    ]
}

async fn create(
    State(house): Shared,
    reserved: Reserved,
    Json(wanted): Json<NewSandbox>,
) -> Result<Response, Problem> {
    // Whoever repeats a call whose answer was lost finds what it made.
    if let Some(found) = reserved.made(&house)? {
        return Ok(made(view::of(&house, &found).await));
    }
    let id = reserved.id()?;
    let mut record = record(&house.base, &id, wanted)?;
    reserved.sign(&mut record);
    let started = Instant::now();
    let id = match house.take(|waiting| bearing(&record, waiting)).await? {
        Some(id) => id,
        None => house.launch(&record).await.map(|()| id)?,
    };
    house.meters.started(started.elapsed());
    let listed = find(&house, &id)?;
    Ok(made(view::of(&house, &listed).await))
}

/// `record` for a room that has the id `waiting` already.
fn bearing(record: &Record, waiting: &str) -> Record {
    let mut other = record.clone();
    // One that nobody gave a name is called what it is.
    if record.name == record.id {
        waiting.clone_into(&mut other.name);
    }
    waiting.clone_into(&mut other.id);
    other
}

/// That a sandbox was made, and where it is.
pub(super) fn made(sandbox: SandboxInfo) -> Response {
    let at = format!("/v1/sandboxes/{}", sandbox.id);
    (StatusCode::CREATED, [(LOCATION, at)], Answer(sandbox)).into_response()
}

async fn list(
    State(house): Shared,
    Query(filter): Query<Filter>,
) -> Result<Answer<SandboxPage>, Problem> {
    filter.page(&house).await.map(Answer)
}

async fn show(
    State(house): Shared,
    Path(id): Path<String>,
) -> Result<Answer<SandboxInfo>, Problem> {
    Ok(Answer(view::of(&house, &find(&house, &id)?).await))
}

async fn update(
    State(house): Shared,
    Path(id): Path<String>,
    Json(asked): Json<LifetimeAsked>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let (listed, client) = living(&house, &id)?;
    client.live(lifetime(&asked)?).await?;
    Ok(Answer(view::of(&house, &listed).await))
}

/// How long a room is to live.
pub(super) fn lifetime(asked: &LifetimeAsked) -> Result<Lifetime, Problem> {
    let span =
        |name, length: Option<f64>| length.map(|it| seconds(name, it).map(Span)).transpose();
    Ok(Lifetime {
        ttl: span("ttl_seconds", asked.ttl_seconds)?,
        idle: span("idle_seconds", asked.idle_seconds)?,
        then: match asked.on_timeout.unwrap_or_default() {
            OnTimeout::Kill => Then::Kill,
            OnTimeout::Pause => Then::Pause,
        },
    })
}

/// How its programs are ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Grace {
    /// How long its programs may tidy up, in seconds; not at all if not said.
    #[schemars(range(min = 0.0, max = 3600.0))]
    grace_seconds: Option<f64>,
}

impl Grace {
    fn length(&self) -> Result<Duration, Problem> {
        let length = self.grace_seconds.unwrap_or(0.0);
        if 3600.0 < length {
            return Err(Problem::malformed("`grace_seconds` is at most 3600"));
        }
        seconds("grace_seconds", length)
    }
}

async fn delete(
    State(house): Shared,
    Path(id): Path<String>,
    Query(grace): Query<Grace>,
) -> Result<StatusCode, Problem> {
    let grace = grace.length()?;
    let listed = find(&house, &id)?;
    let id = &listed.record.id;
    if listed.life == Life::Alive {
        end(&house, id, grace).await?;
    }
    house.depart(id);
    house.journal.forget(id)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stop(
    State(house): Shared,
    Path(id): Path<String>,
    Query(grace): Query<Grace>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let grace = grace.length()?;
    let (listed, _) = living(&house, &id)?;
    end(&house, &listed.record.id, grace).await?;
    house.depart(&listed.record.id);
    Ok(Answer(view::of(&house, &find(&house, &listed.record.id)?).await))
}

/// Ends a room, and returns when its shim has let go: it writes the tombstone last.
async fn end(house: &House, id: &str, grace: Duration) -> Result<(), Problem> {
    let client = Client::new(house.journal.socket(id));
    match client.end(grace).await {
        // Somebody else was faster.
        Ok(()) | Err(ClientError::Gone(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for _ in 0..2000 {
        if house.journal.room(id)?.is_none_or(|it| it.life != Life::Alive) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(Problem::new(Kind::Unsupported, "it takes its time to end; ask again"))
}

async fn pause(
    State(house): Shared,
    Path(id): Path<String>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let (listed, client) = living(&house, &id)?;
    client.pause().await?;
    house.note_pause(&listed.record.id, crate::house::Frozen::Yes);
    Ok(Answer(view::of(&house, &listed).await))
}

async fn resume(
    State(house): Shared,
    Path(id): Path<String>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let (listed, client) = living(&house, &id)?;
    client.resume().await?;
    house.note_pause(&listed.record.id, crate::house::Frozen::No);
    Ok(Answer(view::of(&house, &listed).await))
}

/// How much longer it is to live.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct KeepAlive {
    /// At least so many seconds from now; as long as it was given before if not said.
    ttl_seconds: Option<f64>,
}

async fn keep_alive(
    State(house): Shared,
    Path(id): Path<String>,
    MaybeJson(asked): MaybeJson<KeepAlive>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let (listed, client) = living(&house, &id)?;
    let room = client.inspect().await?;
    let wanted = match asked.ttl_seconds {
        Some(length) => Some(seconds("ttl_seconds", length)?),
        None => room.lifetime.ttl.map(|it| it.0),
    };
    let left = room.left_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
    // One without an end lives longer than anybody can ask for.
    if let (Some(wanted), Some(left)) = (wanted, left)
        && left < wanted
    {
        client.live(Lifetime { ttl: Some(Span(wanted)), ..room.lifetime }).await?;
    }
    Ok(Answer(view::of(&house, &listed).await))
}

/// How long to wait.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// At most so many seconds; 30 if not said, at most 300.
    #[schemars(range(min = 0.0, max = 300.0))]
    timeout_seconds: Option<f64>,
}

impl Wait {
    pub(super) fn length(&self) -> Result<Duration, Problem> {
        let length = self.timeout_seconds.unwrap_or(WAIT);
        if LONGEST_WAIT < length {
            return Err(Problem::malformed("`timeout_seconds` is at most 300"));
        }
        seconds("timeout_seconds", length)
    }
}

async fn wait(
    State(house): Shared,
    Path(id): Path<String>,
    Query(wait): Query<Wait>,
) -> Result<Answer<SandboxInfo>, Problem> {
    let until = Instant::now() + wait.length()?;
    let mut listed = find(&house, &id)?;
    while listed.life == Life::Alive && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
        listed = find(&house, &listed.record.id)?;
    }
    Ok(Answer(view::of(&house, &listed).await))
}

async fn stats(
    State(house): Shared,
    Path(id): Path<String>,
) -> Result<Answer<SandboxStats>, Problem> {
    let (_, client) = living(&house, &id)?;
    Ok(Answer(view::stats(&client.stats().await?)))
}

/// Seconds since 1970 as a moment.
pub(super) fn moment(seconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH)
}
