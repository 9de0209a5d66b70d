//! Rooms come and go.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post, put},
};
use bulkhead_engine::{
    rooms::{Busy, LaunchError},
    way_out::Reply,
};
use bulkhead_spec::Mount;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    error::{ApiError, json_body},
    filter::{Filter, pairs},
    network::Wish,
    objects::{NewSandbox, VolumeMount, detail, listed, sandbox},
};
use crate::{
    api,
    clock::rfc3339,
    house::{Facts, House, Origin, Tenant, Wanted},
    keys::Scope,
    random,
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

/// How long a room lives if its maker does not say.
pub(super) const TIMEOUT: u64 = 300;
/// Templates that every server has: the room that it was started with.
pub(crate) const OWN: [&str; 3] = ["base", "code-interpreter-v1", "bulkhead"];
/// The longest that anybody may ask for.
const LONGEST: u64 = 24 * 3600;

/// Every call about rooms.
pub(crate) fn router(house: Arc<House>) -> Router {
    let guard = middleware::from_fn_with_state(Arc::clone(&house), check);
    Router::new()
        .route("/v2/sandboxes", post(create).get(list))
        .route("/sandboxes", post(create_old).get(list))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(connect))
        .route("/sandboxes/{id}", get(show).delete(end))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/metrics", get(metrics))
        .route("/sandboxes/{id}/logs", get(logs))
        .route("/sandboxes/{id}/network", put(network))
        .merge(super::secrets::router())
        .merge(super::snapshots::router())
        .merge(super::templates::router())
        .merge(super::volumes::router())
        .layer(guard)
        .merge(super::volumes::content())
        .merge(super::templates::files())
        .route("/health", get(async || ""))
        .fallback(async || ApiError::new(404, "there is no such call here").into_response())
        .with_state(house)
}

/// Lets in whoever has a key that is good for the call.
async fn check(State(house): Shared, request: Request, next: Next) -> Answer {
    let key = request.headers().get("x-api-key").and_then(|it| it.to_str().ok());
    let key = key.ok_or_else(|| ApiError::new(401, "an API key is needed: X-API-Key"))?;
    let scope = house.keys.scope_of(key).map_err(|error| {
        tracing::error!(%error, "the keys cannot be read");
        ApiError::new(500, "the keys cannot be read")
    })?;
    let scope = scope.ok_or_else(|| ApiError::new(401, "this API key opens nothing here"))?;
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if !looks && scope < Scope::Run {
        return Err(ApiError::new(403, "this API key is for looking only"));
    }
    Ok(next.run(request).await)
}

async fn create(State(house): Shared, body: Bytes) -> Answer {
    let wanted: NewSandbox = parsed(&body)?;
    make(&house, wanted, true).await
}

/// Old clients say whether the room's own doors are locked.
async fn create_old(State(house): Shared, body: Bytes) -> Answer {
    let wanted: NewSandbox = parsed(&body)?;
    let secure = wanted.secure.unwrap_or(false);
    make(&house, wanted, secure).await
}

#[expect(clippy::fn_params_excessive_bools, reason = "the word of the protocol")]
async fn make(house: &House, wanted: NewSandbox, secure: bool) -> Answer {
    let timeout = bounded(wanted.timeout.unwrap_or(TIMEOUT))?;
    check_wanted(&wanted)?;
    let origin = origin_of(house, &wanted.template_id)?;
    let network = network_of(&wanted);
    // What cannot be held is refused before anything is made.
    network.rules(house.egress())?;
    let headers = network.headers(&house.secrets)?;
    let mounts = mounts_of(house, wanted.volume_mounts.as_deref().unwrap_or_default())?;
    let auto_resume = wanted.auto_resume.as_ref().is_some_and(|it| it.enabled);
    if wanted.auto_pause_memory == Some(false) && auto_resume {
        return Err(ApiError::new(400, "autoResume needs memory to be kept"));
    }
    let token = |wanted: bool| wanted.then(random::token).transpose().map_err(internal);
    let traffic = token(network.hides_ports())?;
    let access = token(secure)?;
    let facts = Facts {
        template: wanted.template_id,
        metadata: wanted.metadata.unwrap_or_default(),
        env: wanted.env_vars.unwrap_or_default(),
        access,
        traffic,
        network,
        started: crate::clock::micros(),
        auto_pause: wanted.auto_pause,
        auto_resume,
    };
    let made = house
        .make(Wanted { facts, timeout, headers, mounts, origin })
        .await
        .map_err(|error| refused(&error))?;
    Ok(json_body(201, &sandbox(house, &made)))
}

/// What cannot be had here is refused, in so many words.
fn check_wanted(wanted: &NewSandbox) -> Result<(), ApiError> {
    if wanted.mcp.is_some() {
        return Err(ApiError::new(400, "this server has no MCP gateway template"));
    }
    Ok(())
}

/// What a room of that template begins with. A name that no template can have, because it says
/// where an image is, means that image.
fn origin_of(house: &House, template: &str) -> Result<Origin, ApiError> {
    if OWN.contains(&template) {
        return Ok(Origin::Own);
    }
    let found = house.templates.version(&template.to_lowercase()).map_err(internal)?;
    if let Some(version) = found {
        return Ok(Origin::Version(version));
    }
    if names_image(template) {
        let odd = |error| ApiError::new(400, format!("template '{template}': {error}"));
        return api::image(template).map(Origin::Image).map_err(odd);
    }
    Err(ApiError::new(404, format!("template '{template}' not found")))
}

/// Whether `name` says where an image is: at the local container engine, or at a registry.
fn names_image(name: &str) -> bool {
    let host = name.split_once('/').map_or("", |(host, _)| host);
    name.starts_with(api::DAEMON) || host.contains(['.', ':'])
}

/// The volumes that are wanted, as shares.
fn mounts_of(house: &House, wanted: &[VolumeMount]) -> Result<Vec<Mount>, ApiError> {
    let mount = |VolumeMount { name, path }: &VolumeMount| {
        let volume = house.volumes.find(name).map_err(internal)?;
        let absent = || ApiError::new(400, format!("volume '{name}' not found"));
        let volume = volume.ok_or_else(absent)?;
        let mount = house.volumes.mount(&volume, path);
        mount.map_err(|error| ApiError::new(400, error.to_string()))
    };
    wanted.iter().map(mount).collect()
}

/// What the client says about the network, in both places where it can.
fn network_of(wanted: &NewSandbox) -> Wish {
    let mut network = wanted.network.clone().unwrap_or_default();
    network.internet = wanted.allow_internet_access.or(network.internet);
    network
}

pub(super) fn refused(error: &LaunchError) -> ApiError {
    match error {
        LaunchError::System(_) => internal(error),
        LaunchError::Busy(busy) => ApiError::busy(busy),
        LaunchError::Refused(answer) if is_busy(answer) => {
            let why = answer.pointer("/error/message").and_then(Value::as_str);
            let why = why.unwrap_or_default().trim_start_matches("busy: ").to_owned();
            ApiError::busy(&Busy { why, retry: Duration::from_secs(5) })
        }
        LaunchError::Refused(answer) => {
            let message = answer.pointer("/error/message").and_then(Value::as_str);
            let cause = answer.pointer("/error/causes/0").and_then(Value::as_str);
            let text = [message.unwrap_or("refused"), cause.unwrap_or_default()].join(": ");
            // What may not or cannot be had is no matter of time, for which clients would take 503.
            let code = answer.pointer("/error/code").and_then(Value::as_str);
            let status = match code {
                Some("BH-E010" | "BH-E020" | "BH-E021" | "BH-E041") => 400,
                Some(_) | None => 503,
            };
            ApiError::new(status, text.trim_end_matches(": "))
        }
    }
}

/// Whether a shim found that there may be no more rooms.
fn is_busy(answer: &Value) -> bool {
    answer.pointer("/error/exit_code").and_then(Value::as_u64) == Some(75)
}

pub(super) fn internal(error: impl std::fmt::Display) -> ApiError {
    tracing::error!(%error, "a call failed");
    ApiError::new(500, error.to_string())
}

#[derive(Deserialize)]
struct Timeout {
    timeout: Option<u64>,
}

async fn connect(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let wanted: Timeout = parsed(&body)?;
    let tenant = tenant(&house, &id)?;
    let resumed = tenant.is_paused();
    if resumed {
        resume(&tenant).await?;
    }
    let wanted = wanted.timeout.or(resumed.then_some(TIMEOUT));
    if let Some(timeout) = wanted {
        let timeout = bounded(timeout)?;
        // Whoever connects never shortens what others count on.
        if resumed || tenant.ends_at() < SystemTime::now() + timeout {
            tenant.live_for(timeout).await.map_err(internal)?;
        }
    }
    Ok(json_body(if resumed { 201 } else { 200 }, &sandbox(&house, &tenant)))
}

/// Lets a frozen room go on.
pub(crate) async fn resume(tenant: &Tenant) -> Result<(), ApiError> {
    tenant.client.resume().await.map_err(internal)?;
    tenant.paused.store(false, Ordering::Relaxed);
    tenant.live_for(Duration::from_secs(TIMEOUT)).await.map_err(internal)
}

async fn list(State(house): Shared, RawQuery(query): RawQuery) -> Answer {
    let filter = Filter::read(&pairs(&query.unwrap_or_default()))?;
    let tenants = house.tenants();
    let running = tenants.iter().filter(|it| !it.is_paused()).count();
    let (page, next) = filter.page(&tenants);
    let page: Vec<Value> = page.into_iter().map(|it| listed(&house, it)).collect();
    let mut response = json_body(200, &Value::Array(page));
    let mut header = |name: &'static str, text: String| {
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(name, value);
        }
    };
    header("x-total-running", running.to_string());
    if let Some(next) = next {
        header("x-next-token", next);
    }
    Ok(response)
}

async fn show(State(house): Shared, Path(id): Path<String>) -> Answer {
    let tenant = tenant(&house, &id)?;
    Ok(json_body(200, &detail(&house, &tenant)))
}

async fn end(State(house): Shared, Path(id): Path<String>) -> Answer {
    if house.end(&id).await { Ok(nothing()) } else { Err(ApiError::no_room(&id)) }
}

async fn timeout(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let wanted: Timeout = parsed(&body)?;
    let tenant = tenant(&house, &id)?;
    let timeout = bounded(wanted.timeout.unwrap_or(TIMEOUT))?;
    tenant.live_for(timeout).await.map_err(internal)?;
    Ok(nothing())
}

#[derive(Deserialize)]
struct Refresh {
    duration: Option<u64>,
}

async fn refresh(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let wanted: Refresh = parsed(&body)?;
    let tenant = tenant(&house, &id)?;
    let timeout = bounded(wanted.duration.unwrap_or(TIMEOUT))?;
    if tenant.ends_at() < SystemTime::now() + timeout {
        tenant.live_for(timeout).await.map_err(internal)?;
    }
    Ok(nothing())
}

#[derive(Deserialize)]
struct Pause {
    memory: Option<bool>,
}

async fn pause(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let wanted: Pause = parsed(&body)?;
    let tenant = tenant(&house, &id)?;
    if wanted.memory == Some(false) {
        return Err(ApiError::new(400, "a room is paused with its memory here"));
    }
    if tenant.is_paused() {
        return Err(ApiError::new(409, format!("sandbox \"{id}\" is already paused")));
    }
    tenant.client.pause().await.map_err(internal)?;
    tenant.paused.store(true, Ordering::Relaxed);
    Ok(nothing())
}

async fn metrics(
    State(house): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let tenant = tenant(&house, &id)?;
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let query = pairs(&query.unwrap_or_default());
    let bound = |name: &str| {
        let found = query.iter().find(|(it, _)| it == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let within = bound("start").is_none_or(|it| it <= seconds)
        && bound("end").is_none_or(|it| seconds <= it);
    if !within || tenant.is_paused() {
        return Ok(json_body(200, &json!([])));
    }
    let stats = tenant.client.stats().await.map_err(internal)?;
    let (processors, memory, disk) = house.size();
    let used = stats.memory.or(stats.memory_peak).unwrap_or(0);
    let cpu = stats.cpu_seconds.unwrap_or(0.0) / stats.wall_seconds.max(0.001) * 100.0;
    Ok(json_body(
        200,
        &json!([{
            "timestamp": rfc3339(now),
            "timestampUnix": seconds,
            "cpuCount": processors,
            "cpuUsedPct": cpu,
            "memUsed": used,
            "memTotal": memory << 20,
            "memCache": 0,
            "diskUsed": 0,
            "diskTotal": disk << 20,
        }]),
    ))
}

async fn logs(State(house): Shared, Path(id): Path<String>) -> Answer {
    let tenant = tenant(&house, &id)?;
    let programs = tenant.client.programs().await.map_err(internal)?;
    let lines = programs.iter().map(|it| {
        let at = rfc3339(UNIX_EPOCH + Duration::from_secs(it.started));
        let words: Vec<_> = it.argv.iter().map(|it| it.0.to_string_lossy()).collect();
        (at, format!("started {}: {}", it.id, words.join(" ")))
    });
    let lines: Vec<_> = lines.collect();
    // A line is JSON in text, for clients that pick it apart.
    let old: Vec<_> = lines
        .iter()
        .map(|(at, line)| {
            let line = json!({ "level": "info", "logger": "process", "message": line });
            json!({ "timestamp": at, "line": line.to_string() })
        })
        .collect();
    let new: Vec<_> = lines
        .iter()
        .map(|(at, line)| {
            json!({ "timestamp": at, "message": line, "level": "info", "fields": {} })
        })
        .collect();
    Ok(json_body(200, &json!({ "logs": old, "logEntries": new })))
}

async fn network(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let wish: Wish = parsed(&body)?;
    let tenant = tenant(&house, &id)?;
    // What cannot be held is refused before anything is changed.
    wish.rules(house.egress())?;
    let headers = wish.headers(&house.secrets)?;
    let headers = house.lay_live(&id, &headers).map_err(internal)?;
    let ask = wish.ask(house.egress(), headers)?;
    let told = house.tell_gateway(&id, ask).await;
    // Whoever was told has read them by now.
    house.forget_live(&id);
    match told.map_err(internal)? {
        Some(Reply::Refused { why }) => Err(ApiError::new(400, why)),
        Some(Reply::Rules { .. } | Reply::Verdict { .. }) => {
            tenant.set_network(wish);
            Ok(nothing())
        }
        None if wish.opens_nothing() => Ok(nothing()),
        None => {
            let message = "this sandbox was made without a network, and gets none later; \
                           create it with network options or allow_internet_access";
            Err(ApiError::new(400, message))
        }
    }
}

/// The room called `id`, which must live.
pub(super) fn tenant(house: &House, id: &str) -> Result<Arc<Tenant>, ApiError> {
    let tenant = house.tenant(id).filter(|it| house.lives(it));
    tenant.ok_or_else(|| ApiError::no_room(id))
}

pub(super) fn bounded(seconds: u64) -> Result<Duration, ApiError> {
    if LONGEST < seconds {
        return Err(ApiError::new(400, format!("Timeout cannot be greater than {LONGEST} s")));
    }
    Ok(Duration::from_secs(seconds))
}

/// The body as JSON; an empty one has no fields.
pub(super) fn parsed<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| ApiError::new(400, error.to_string()))
}

fn nothing() -> Response {
    http::StatusCode::NO_CONTENT.into_response()
}
