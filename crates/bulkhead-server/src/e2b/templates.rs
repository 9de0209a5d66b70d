//! Templates: what rooms begin with, as E2B's clients build, name and tag them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, Request, State},
    response::{IntoResponse as _, Response},
    routing::{delete, get, patch, post, put},
};
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{
    control::{OWN, internal, parsed},
    error::{ApiError, json_body},
    filter::pairs,
};
use crate::{
    builds::{self, Line, Recipe, Status},
    clock::rfc3339,
    house::House,
    templates::{DEFAULT, Template, is_name, is_tag, uuid},
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

/// The most lines of a build in one answer.
const LINES: usize = 100;
/// The largest archive of files.
const ARCHIVE: u64 = 1 << 30;

/// For whoever has a key.
pub(super) fn router() -> Router<Arc<House>> {
    Router::new()
        .route("/templates", get(list))
        .route("/v3/templates", post(announce))
        .route("/templates/tags", post(tag).delete(untag))
        .route("/templates/aliases/{alias}", get(alias))
        .route("/templates/{id}", delete(remove))
        .route("/v2/templates/{id}", patch(publish))
        .route("/templates/{id}/tags", get(tags))
        .route("/templates/{id}/files/{hash}", get(place))
        .route("/v2/templates/{id}/builds/{build}", post(begin))
        .route("/templates/{id}/builds/{build}/status", get(status))
}

/// For whoever was told where to put files.
pub(super) fn files() -> Router<Arc<House>> {
    Router::new().route("/templates/files/{hash}/{token}", put(upload))
}

#[derive(Deserialize)]
struct Announced {
    name: String,
    #[serde(default)]
    tags: Vec<String>,
}

async fn announce(State(house): Shared, body: Bytes) -> Answer {
    let Announced { name, tags } = parsed(&body)?;
    let name = name.to_lowercase();
    let (name, tag) = name.split_once(':').map_or((name.as_str(), None), |(a, b)| (a, Some(b)));
    if !is_name(name) || OWN.contains(&name) {
        return Err(ApiError::new(400, format!("'{name}' cannot be the name of a template")));
    }
    let mut tags: Vec<String> = tags.iter().map(|it| it.to_lowercase()).collect();
    tags.extend(tag.map(str::to_owned));
    if tags.is_empty() {
        tags.push(DEFAULT.to_owned());
    }
    check_tags(&tags)?;
    let id = house.templates.reserve(name).map_err(internal)?;
    let template = Template {
        id: id.clone(),
        name: Some(name.to_owned()),
        tags: BTreeMap::new(),
        snapshot_of: None,
    };
    let build = uuid().map_err(internal)?;
    house.builds.announce(build.clone(), template, tags.clone());
    let body = json!({
        "templateID": id, "buildID": build, "public": false,
        "names": [name], "tags": tags, "aliases": [name],
    });
    Ok(json_body(202, &body))
}

fn check_tags(tags: &[String]) -> Result<(), ApiError> {
    match tags.iter().find(|it| !is_tag(it)) {
        Some(odd) => Err(ApiError::new(400, format!("'{odd}' cannot be a tag"))),
        None => Ok(()),
    }
}

async fn begin(
    State(house): Shared,
    Path((_, build)): Path<(String, String)>,
    body: Bytes,
) -> Answer {
    let recipe: Recipe = parsed(&body)?;
    let build = house.builds.find(&build).ok_or_else(|| no_build(&build))?;
    if recipe.from_image_registry.is_some() {
        let message = "this server pulls images with the credentials of its own host";
        return Err(ApiError::new(400, message));
    }
    if !build.begin() {
        return Err(ApiError::new(400, "this build was begun before"));
    }
    tokio::spawn(builds::build(Arc::clone(&house), build, recipe));
    Ok(StatusCode::ACCEPTED.into_response())
}

async fn status(
    State(house): Shared,
    Path((id, build)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let build = house.builds.find(&build).ok_or_else(|| no_build(&build))?;
    let query = pairs(&query.unwrap_or_default());
    let number = |name: &str| {
        let found = query.iter().find(|(it, _)| it == name);
        found.and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let most = number("limit").unwrap_or(LINES).min(LINES);
    // Asked for first: what is said after the end is not missed.
    let now = build.status();
    let lines = build.lines(number("logsOffset").unwrap_or(0), most);
    let lines: Vec<Value> = lines.iter().map(entry).collect();
    let (word, reason) = match now {
        Status::Waiting => ("waiting", None),
        Status::Building => ("building", None),
        Status::Ready => ("ready", None),
        Status::Failed { step, why } => {
            ("error", Some(json!({ "message": why, "step": step })))
        }
    };
    let mut body = json!({
        "templateID": id, "buildID": build.id, "status": word, "logs": [], "logEntries": lines,
    });
    if let (Some(body), Some(reason)) = (body.as_object_mut(), reason) {
        body.insert("reason".to_owned(), reason);
    }
    Ok(json_body(200, &body))
}

fn entry(line: &Line) -> Value {
    json!({
        "timestamp": rfc3339(line.at), "message": line.text, "level": line.level,
        "step": line.step,
    })
}

/// Where the archive of that hash is to be put.
async fn place(
    State(house): Shared,
    Path((_, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let file = house.archive(&hash).ok_or_else(|| ApiError::new(400, "invalid hash"))?;
    if file.exists() {
        return Ok(json_body(201, &json!({ "present": true })));
    }
    let host = headers.get("host").and_then(|it| it.to_str().ok()).unwrap_or_default();
    // A server that is known by its domain is reached over TLS.
    let known = house.domain.as_ref().is_some_and(|it| host.ends_with(it.as_str()));
    let scheme = if known { "https" } else { "http" };
    let token = house.upload_token(&hash);
    let url = format!("{scheme}://{host}/templates/files/{hash}/{token}");
    Ok(json_body(201, &json!({ "present": false, "url": url })))
}

async fn upload(
    State(house): Shared,
    Path((hash, token)): Path<(String, String)>,
    request: Request,
) -> Answer {
    let file = house.archive(&hash).ok_or_else(|| ApiError::new(400, "invalid hash"))?;
    if !crate::keys::same(&token, &house.upload_token(&hash)) {
        return Err(ApiError::new(401, "this address was not given for these files"));
    }
    let dir = file.parent().map(std::path::Path::to_owned).unwrap_or_default();
    tokio::fs::create_dir_all(&dir).await.map_err(internal)?;
    let fresh = file.with_extension(uuid().map_err(internal)?);
    let mut to = tokio::fs::File::create(&fresh).await.map_err(internal)?;
    let (mut body, mut size) = (request.into_body().into_data_stream(), 0);
    let mut written = Ok(());
    while let Some(chunk) = body.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => {
                written = Err(ApiError::new(400, error.to_string()));
                break;
            }
        };
        size += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if ARCHIVE < size {
            written = Err(ApiError::new(413, "the files of a template have at most 1 GiB"));
            break;
        }
        to.write_all(&chunk).await.map_err(internal)?;
    }
    if written.is_err() {
        tokio::fs::remove_file(&fresh).await.map_err(internal)?;
        written?;
    }
    to.sync_all().await.map_err(internal)?;
    tokio::fs::rename(&fresh, &file).await.map_err(internal)?;
    Ok(StatusCode::OK.into_response())
}

async fn list(State(house): Shared) -> Answer {
    let all = house.templates.list().map_err(internal)?;
    let (processors, memory, disk) = house.size();
    let object = |it: &Template| {
        let last = it.tags.values().max_by_key(|it| it.created);
        let at = |micros| rfc3339(std::time::UNIX_EPOCH + Duration::from_micros(micros));
        let first = it.tags.values().map(|it| it.created).min().unwrap_or_default();
        json!({
            "templateID": it.id, "buildID": last.map(|it| it.build.clone()),
            "cpuCount": processors, "memoryMB": memory, "diskSizeMB": disk, "public": false,
            "aliases": it.name, "names": it.name.iter().collect::<Vec<_>>(),
            "createdAt": at(first), "updatedAt": at(last.map_or(0, |it| it.created)),
            "createdBy": null, "lastSpawnedAt": null, "spawnCount": 0,
            "buildCount": it.tags.len(), "buildStatus": "ready",
            "envdVersion": super::objects::ENVD_VERSION,
        })
    };
    let all = all.iter().filter(|it| it.snapshot_of.is_none()).map(object).collect();
    Ok(json_body(200, &Value::Array(all)))
}

async fn remove(State(house): Shared, Path(id): Path<String>) -> Answer {
    let removed = house.templates.remove(&id.to_lowercase()).map_err(internal)?;
    let stale = removed.ok_or_else(|| absent(&id))?;
    house.forget_checkpoints(&stale);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn publish(State(house): Shared, Path(id): Path<String>) -> Answer {
    let found = house.templates.find(&id).map_err(internal)?;
    found.ok_or_else(|| absent(&id))?;
    Err(ApiError::new(400, "whoever has a key to this server uses all of its templates"))
}

async fn alias(State(house): Shared, Path(alias): Path<String>) -> Answer {
    if OWN.contains(&alias.as_str()) {
        return Ok(json_body(200, &json!({ "templateID": alias, "public": true })));
    }
    let found = house.templates.find(&alias.to_lowercase()).map_err(internal)?;
    let found = found.ok_or_else(|| absent(&alias))?;
    Ok(json_body(200, &json!({ "templateID": found.id, "public": false })))
}

async fn tags(State(house): Shared, Path(id): Path<String>) -> Answer {
    let found = house.templates.find(&id.to_lowercase()).map_err(internal)?;
    let found = found.ok_or_else(|| absent(&id))?;
    let at = |micros| rfc3339(std::time::UNIX_EPOCH + Duration::from_micros(micros));
    let all = found.tags.iter().map(
        |(tag, it)| json!({ "tag": tag, "buildID": it.build, "createdAt": at(it.created) }),
    );
    Ok(json_body(200, &Value::Array(all.collect())))
}

#[derive(Deserialize)]
struct Tag {
    target: String,
    tags: Vec<String>,
}

async fn tag(State(house): Shared, body: Bytes) -> Answer {
    let Tag { target, tags } = parsed(&body)?;
    let (target, tags) = (target.to_lowercase(), lowered(&tags));
    check_tags(&tags)?;
    let template = house.templates.find(&target).map_err(internal)?;
    let version = house.templates.version(&target).map_err(internal)?;
    let (Some(template), Some(version)) = (template, version) else {
        return Err(absent(&target));
    };
    let stale = house.templates.put(&template, &tags, &version).map_err(internal)?;
    house.forget_checkpoints(&stale);
    Ok(json_body(201, &json!({ "tags": tags, "buildID": version.build })))
}

#[derive(Deserialize)]
struct Untag {
    name: String,
    tags: Vec<String>,
}

async fn untag(State(house): Shared, body: Bytes) -> Answer {
    let Untag { name, tags } = parsed(&body)?;
    let (name, tags) = (name.to_lowercase(), lowered(&tags));
    check_tags(&tags)?;
    for tag in tags {
        let text = format!("{name}:{tag}");
        let removed = house.templates.remove(&text).map_err(internal)?;
        house.forget_checkpoints(&removed.ok_or_else(|| absent(&text))?);
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn lowered(tags: &[String]) -> Vec<String> {
    tags.iter().map(|it| it.to_lowercase()).collect()
}

fn absent(id: &str) -> ApiError {
    ApiError::new(404, format!("template '{id}' not found"))
}

fn no_build(id: &str) -> ApiError {
    ApiError::new(404, format!("build '{id}' not found"))
}
