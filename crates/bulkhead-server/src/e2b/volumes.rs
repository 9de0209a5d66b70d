//! Volumes, and the files in them, as E2B's clients see them.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{FromRequestParts, Path, Request, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use bulkhead_engine::rooms::{
    Client, ClientError, Links,
    tree::{Depth, Facts, Kind, Put},
};
use futures_util::StreamExt as _;
use http::{Method, StatusCode, request::Parts};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    control::parsed,
    envd::chunks,
    error::{ApiError, json_body},
    filter::pairs,
};
use crate::{
    clock::rfc3339,
    house::House,
    keys::same,
    volumes::{Volume, VolumeError},
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

/// Where the keeper of a volume sees it.
pub(crate) const PLACE: &str = "/volume";
/// The most entries of one listing.
const MOST: usize = 10_000;

/// Volumes come and go; for whoever has a key.
pub(super) fn router() -> Router<Arc<House>> {
    Router::new()
        .route("/volumes", get(list).post(create))
        .route("/volumes/{id}", get(show).delete(remove))
}

/// What is in them; for whoever has the token of the volume.
pub(super) fn content() -> Router<Arc<House>> {
    Router::new()
        .route("/volumecontent/{id}/dir", get(entries).post(make_dir))
        .route("/volumecontent/{id}/path", get(stat).patch(change).delete(unlink))
        .route("/volumecontent/{id}/file", get(read).put(write))
}

#[derive(Deserialize)]
struct New {
    name: String,
}

async fn create(State(house): Shared, body: Bytes) -> Answer {
    let New { name } = parsed(&body)?;
    let made = house.volumes.create(&name).map_err(|error| match error {
        VolumeError::Taken(_) => ApiError::new(409, error.to_string()),
        VolumeError::Name => ApiError::new(400, error.to_string()),
        VolumeError::System(source) => internal(&source),
    })?;
    Ok(json_body(201, &with_token(&house, &made)))
}

async fn list(State(house): Shared) -> Answer {
    let all = house.volumes.list().map_err(|error| internal(&error))?;
    let all = all.iter().map(|it| json!({ "volumeID": it.id, "name": it.name })).collect();
    Ok(json_body(200, &Value::Array(all)))
}

async fn show(State(house): Shared, Path(id): Path<String>) -> Answer {
    let found = house.volumes.find(&id).map_err(|error| internal(&error))?;
    let found = found.ok_or_else(|| absent(&id))?;
    Ok(json_body(200, &with_token(&house, &found)))
}

async fn remove(State(house): Shared, Path(id): Path<String>) -> Answer {
    if house.volumes.remove(&id).await.map_err(|error| internal(&error))? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(absent(&id))
    }
}

fn with_token(house: &House, volume: &Volume) -> Value {
    let mut object =
        json!({ "volumeID": volume.id, "name": volume.name, "token": volume.token });
    if let (Some(object), Some(domain)) = (object.as_object_mut(), &house.domain) {
        object.insert("domain".to_owned(), domain.as_str().into());
    }
    object
}

/// A call about what is in a volume.
struct Call {
    keeper: Client,
    query: Vec<(String, String)>,
}

impl FromRequestParts<Arc<House>> for Call {
    type Rejection = ApiError;

    /// Lets in whoever has the token.
    async fn from_request_parts(
        parts: &mut Parts,
        house: &Arc<House>,
    ) -> Result<Self, ApiError> {
        let Path(id) = Path::<String>::from_request_parts(parts, house)
            .await
            .map_err(|error| ApiError::new(400, error.body_text()))?;
        let given = parts.headers.get("authorization").and_then(|it| it.to_str().ok());
        let given = given.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
        let found = house.volumes.find(&id).map_err(|error| internal(&error))?;
        // One that is not there is told apart from a wrong token only to those who have a key.
        let volume = found.filter(|it| same(given, &it.token));
        let volume = volume.ok_or_else(|| ApiError::new(401, "invalid volume token"))?;
        let keeper = house.keeper(&volume).await.map_err(|error| internal(&error))?;
        Ok(Self { keeper, query: pairs(parts.uri.query().unwrap_or_default()) })
    }
}

/// Answers a call about a volume of which `keeper` is the keeper, for a fuzzer.
pub(crate) async fn within(keeper: Client, request: Request) -> Response {
    let call = Call { keeper, query: pairs(request.uri().query().unwrap_or_default()) };
    let about = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let answer = match (request.method(), about.as_str()) {
        (&Method::GET, "dir") => entries(call).await,
        (&Method::POST, "dir") => make_dir(call).await,
        (&Method::PATCH, _) => match request.into_body().collect().await {
            Ok(body) => change(call, body.to_bytes()).await,
            Err(error) => Err(ApiError::new(400, error.to_string())),
        },
        (&Method::DELETE, _) => unlink(call).await,
        (&Method::PUT, _) => write(call, request).await,
        (&Method::GET, "file") => read(call).await,
        (_, _) => stat(call).await,
    };
    answer.into_response()
}

impl Call {
    fn said(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Result<Option<u32>, ApiError> {
        let odd = |_| ApiError::new(400, format!("invalid {name}"));
        self.said(name).map(str::parse).transpose().map_err(odd)
    }

    /// The path inside the volume, from its root.
    fn path(&self) -> Result<String, ApiError> {
        let path = self.said("path").ok_or_else(|| ApiError::new(400, "path is missing"))?;
        let mut parts = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Ok(format!("/{}", parts.join("/")))
    }

    /// Permissions, and nobody else's files: a volume has one owner.
    fn mode(&self) -> Result<Option<u32>, ApiError> {
        if self.number("uid")?.is_some() || self.number("gid")?.is_some() {
            return Err(ApiError::new(400, "files of a volume have one owner here"));
        }
        self.number("mode")
    }

    async fn facts(&self, path: &str) -> Result<Facts, ApiError> {
        let found = self.keeper.stat(place(path).as_bytes(), Links::Keep).await;
        found.map_err(|error| refused(&error, path))
    }
}

fn place(path: &str) -> String {
    format!("{PLACE}{path}")
}

async fn entries(call: Call) -> Answer {
    let (path, depth) = (call.path()?, call.number("depth")?.unwrap_or(1));
    if call.facts(&path).await?.kind != Kind::Dir {
        return Err(ApiError::new(400, format!("path '{path}' is not a directory")));
    }
    let listed = call.keeper.list(place(&path).as_bytes(), depth, MOST).await;
    let (found, _more) = listed.map_err(|error| refused(&error, &path))?;
    let below = path.trim_end_matches('/');
    let entries = found.iter().map(|it| {
        let name = String::from_utf8_lossy(&it.path);
        entry(&format!("{below}/{name}"), &it.facts)
    });
    Ok(json_body(200, &Value::Array(entries.collect())))
}

async fn make_dir(call: Call) -> Answer {
    let (path, mode) = (call.path()?, call.mode()?);
    let force = call.said("force") == Some("true");
    if !force {
        // Without force neither its parents are made nor is one taken that is there.
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        call.facts(parent).await?;
        if call.facts(&path).await.is_ok() {
            return Err(ApiError::new(409, format!("path '{path}' already exists")));
        }
    }
    let done = call.keeper.make_dirs(place(&path).as_bytes(), mode.unwrap_or(0o755)).await;
    done.map_err(|error| refused(&error, &path))?;
    Ok(json_body(201, &entry(&path, &call.facts(&path).await?)))
}

async fn stat(call: Call) -> Answer {
    let path = call.path()?;
    Ok(json_body(200, &entry(&path, &call.facts(&path).await?)))
}

#[derive(Deserialize)]
struct Change {
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
}

async fn change(call: Call, body: Bytes) -> Answer {
    let Change { uid, gid, mode } = parsed(&body)?;
    if uid.is_some() || gid.is_some() {
        return Err(ApiError::new(400, "files of a volume have one owner here"));
    }
    let path = call.path()?;
    if let Some(mode) = mode {
        let changed = call.keeper.set_mode(place(&path).as_bytes(), mode).await;
        changed.map_err(|error| refused(&error, &path))?;
    }
    Ok(json_body(200, &entry(&path, &call.facts(&path).await?)))
}

async fn unlink(call: Call) -> Answer {
    let path = call.path()?;
    call.facts(&path).await?;
    if path == "/" {
        return Err(ApiError::new(400, "the volume itself cannot be removed by a path"));
    }
    let removed = call.keeper.remove(place(&path).as_bytes(), Depth::Everything).await;
    removed.map_err(|error| refused(&error, &path))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn read(call: Call) -> Answer {
    let path = call.path()?;
    if call.facts(&path).await?.kind == Kind::Dir {
        return Err(ApiError::new(400, format!("path '{path}' is a directory")));
    }
    let reading = call.keeper.read(place(&path).as_bytes(), 0, None).await;
    let reading = reading.map_err(|error| refused(&error, &path))?;
    Ok(Response::new(Body::from_stream(chunks(reading))))
}

async fn write(call: Call, request: Request) -> Answer {
    let (path, mode) = (call.path()?, call.mode()?);
    let force = call.said("force") == Some("true");
    let put = if force { Put::Replace } else { Put::New };
    if let Some((parent, _)) = path.rsplit_once('/').filter(|_| force) {
        let done = call.keeper.make_dirs(place(parent).as_bytes(), 0o755).await;
        done.map_err(|error| refused(&error, &path))?;
    }
    let upload = call.keeper.write(place(&path).as_bytes(), put, mode).await;
    let mut upload = upload.map_err(|error| refused(&error, &path))?;
    let mut body = request.into_body().into_data_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| ApiError::new(400, error.to_string()))?;
        // Why it takes no more is said at the end.
        if upload.write(&chunk).await.is_err() {
            break;
        }
    }
    upload.finish().await.map_err(|error| refused(&error, &path))?;
    Ok(json_body(201, &entry(&path, &call.facts(&path).await?)))
}

fn entry(path: &str, facts: &Facts) -> Value {
    let (seconds, nanos) = facts.modified;
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    let at = rfc3339(std::time::UNIX_EPOCH + since);
    let kind = match facts.kind {
        Kind::File => "file",
        Kind::Dir => "directory",
        Kind::Link => "symlink",
        Kind::Fifo | Kind::Socket | Kind::Device => "unknown",
    };
    let mut object = json!({
        "name": path.rsplit('/').next().unwrap_or_default(),
        "type": kind,
        "path": path,
        "size": facts.size,
        "mode": facts.mode & 0o7777,
        "uid": facts.owner.0,
        "gid": facts.owner.1,
        // Only the last change is known; the others cannot be later.
        "atime": at,
        "mtime": at,
        "ctime": at,
    });
    if let (Some(object), Some(target)) = (object.as_object_mut(), &facts.target) {
        object.insert("target".to_owned(), String::from_utf8_lossy(target).into());
    }
    object
}

fn refused(error: &ClientError, path: &str) -> ApiError {
    match error {
        ClientError::Gone(_) | ClientError::Confused(_) => internal(error),
        ClientError::Failed(failed) => match failed.kind.as_str() {
            "no_file" => ApiError::new(404, format!("path '{path}' not found")),
            "exists" => ApiError::new(409, format!("path '{path}' already exists")),
            "disk_full" => ApiError::new(507, "not enough disk space available"),
            _ => ApiError::new(400, format!("path '{path}': {}", failed.message)),
        },
    }
}

fn absent(id: &str) -> ApiError {
    ApiError::new(404, format!("volume '{id}' not found"))
}

fn internal(error: &impl std::fmt::Display) -> ApiError {
    tracing::error!(%error, "a call about volumes failed");
    ApiError::new(500, error.to_string())
}
