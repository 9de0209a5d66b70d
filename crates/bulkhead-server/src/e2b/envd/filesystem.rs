//! The file service: names, not bytes.

use axum::response::{IntoResponse as _, Response};
use bulkhead_engine::rooms::{
    ClientError, Links, Named,
    tree::{Depth, Facts, Kind, Onto},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Call,
    connect::{Code, RpcError, failed, message, reply},
    entry::{absolute, entry},
    watch,
};

/// The most entries in one answer.
const MOST: usize = 20_000;

/// Answers a call of the file service.
pub(super) async fn answer(call: Call, name: &str) -> Response {
    if name == "WatchDir" {
        return match watch::stream(&call).await {
            Ok(response) => response,
            Err(error) => failed(&error),
        };
    }
    let answered = match name {
        "Stat" => stat(&call).await,
        "MakeDir" => make_dir(&call).await,
        "Move" => rename(&call).await,
        "ListDir" => list(&call).await,
        "Remove" => remove(&call).await,
        "CreateWatcher" => watch::create(&call).await,
        "GetWatcherEvents" => watch::events(&call),
        "RemoveWatcher" => watch::remove(&call),
        _ => Err(RpcError::new(
            Code::Unimplemented,
            format!("filesystem.Filesystem has no {name}"),
        )),
    };
    match answered {
        Ok(body) => reply(&body),
        Err(error) => error.into_response(),
    }
}

#[derive(Deserialize)]
struct One {
    #[serde(default)]
    path: String,
}

async fn stat(call: &Call) -> Result<Value, RpcError> {
    let One { path } = message(&call.body)?;
    Ok(json!({ "entry": look(call, &absolute(&path)).await? }))
}

/// What is at `path`, with what it leads to if it is a link.
pub(super) async fn look(call: &Call, path: &str) -> Result<Value, RpcError> {
    let client = &call.tenant.client;
    let facts = client.stat(path.as_bytes(), Links::Keep).await;
    let facts = facts.map_err(|error| trouble(&error, path))?;
    let target = followed(call, path, &facts).await;
    Ok(entry(path, &facts, target.as_ref()))
}

/// What a link leads to; nothing if it is none, or leads nowhere.
async fn followed(call: &Call, path: &str, facts: &Facts) -> Option<Facts> {
    if facts.kind != Kind::Link {
        return None;
    }
    call.tenant.client.stat(path.as_bytes(), Links::Follow).await.ok()
}

async fn make_dir(call: &Call) -> Result<Value, RpcError> {
    let One { path } = message(&call.body)?;
    let path = absolute(&path);
    let client = &call.tenant.client;
    match client.stat(path.as_bytes(), Links::Follow).await {
        Ok(facts) if facts.kind == Kind::Dir => {
            let text = format!("directory already exists: {path}");
            return Err(RpcError::new(Code::AlreadyExists, text));
        }
        Ok(_) => {
            let text = format!("path already exists but it is not a directory: {path}");
            return Err(RpcError::new(Code::InvalidArgument, text));
        }
        Err(_) => {}
    }
    let made = client.make_dirs(path.as_bytes(), 0o755).await;
    made.map_err(|error| trouble(&error, &path))?;
    Ok(json!({ "entry": look(call, &path).await? }))
}

async fn rename(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct Move {
        source: String,
        destination: String,
    }
    let Move { source, destination } = message(&call.body)?;
    let (from, to) = (absolute(&source), absolute(&destination));
    let client = &call.tenant.client;
    client.stat(from.as_bytes(), Links::Keep).await.map_err(|error| trouble(&error, &from))?;
    if let Some((dir, _)) = to.rsplit_once('/')
        && !dir.is_empty()
    {
        let made = client.make_dirs(dir.as_bytes(), 0o755).await;
        made.map_err(|error| trouble(&error, &to))?;
    }
    let moved = client.rename(from.as_bytes(), to.as_bytes(), Onto::Anything).await;
    moved.map_err(|error| trouble(&error, &from))?;
    Ok(json!({ "entry": look(call, &to).await? }))
}

/// The directory that a client means by `path`, from the root.
pub(super) async fn directory(call: &Call, path: &str) -> Result<String, RpcError> {
    let path = absolute(path);
    let facts = call.tenant.client.stat(path.as_bytes(), Links::Follow).await;
    let facts = facts.map_err(|error| trouble(&error, &path))?;
    if facts.kind != Kind::Dir {
        let text = format!("path is not a directory: {path}");
        return Err(RpcError::new(Code::InvalidArgument, text));
    }
    Ok(path)
}

async fn list(call: &Call) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct ListDir {
        #[serde(default)]
        path: String,
        #[serde(default)]
        depth: u32,
    }
    let ListDir { path, depth } = message(&call.body)?;
    let path = directory(call, &path).await?;
    let listed = call.tenant.client.list(path.as_bytes(), depth.max(1), MOST).await;
    let (mut entries, _) = listed.map_err(|error| trouble(&error, &path))?;
    entries.sort_by(|one, other| parts(one).cmp(parts(other)));
    let mut shown = Vec::with_capacity(entries.len());
    for Named { path: name, facts } in &entries {
        let name = String::from_utf8_lossy(name);
        let whole = format!("{}/{name}", path.trim_end_matches('/'));
        let target = followed(call, &whole, facts).await;
        shown.push(entry(&whole, facts, target.as_ref()));
    }
    Ok(json!({ "entries": shown }))
}

/// The names on the way, so that a directory comes before what is in it.
fn parts(entry: &Named) -> impl Iterator<Item = &[u8]> {
    entry.path.split(|it| *it == b'/')
}

async fn remove(call: &Call) -> Result<Value, RpcError> {
    let One { path } = message(&call.body)?;
    let path = absolute(&path);
    match call.tenant.client.remove(path.as_bytes(), Depth::Everything).await {
        Ok(()) => Ok(json!({})),
        Err(ClientError::Failed(failed)) if failed.kind == "no_file" => Ok(json!({})),
        Err(error) => Err(trouble(&error, &path)),
    }
}

/// What a file operation did not do, in the words of the protocol.
pub(super) fn trouble(error: &ClientError, path: &str) -> RpcError {
    match error {
        ClientError::Gone(_) => RpcError::new(Code::Unavailable, "the sandbox is gone"),
        ClientError::Confused(_) => RpcError::new(Code::Internal, error.to_string()),
        ClientError::Failed(failed) => match failed.kind.as_str() {
            "no_file" => RpcError::new(Code::NotFound, format!("path '{path}' does not exist")),
            "exists" => RpcError::new(Code::AlreadyExists, format!("'{path}' exists")),
            "not_a_file" => {
                RpcError::new(Code::InvalidArgument, format!("'{path}': {}", failed.message))
            }
            "forbidden" => {
                RpcError::new(Code::PermissionDenied, format!("'{path}': {}", failed.message))
            }
            "disk_full" => RpcError::new(Code::ResourceExhausted, "the disk is full"),
            _ => RpcError::new(Code::Internal, format!("'{path}': {}", failed.message)),
        },
    }
}
