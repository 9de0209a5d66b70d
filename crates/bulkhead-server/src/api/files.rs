//! Files of a sandbox. Everything is done inside, with the sandbox's own rights: nothing here
//! follows its links.

mod archive;
mod range;
mod watch;

use std::sync::Arc;

use axum::{Json as Answer, body::Body, extract::State, response::Response};
use bulkhead_engine::rooms::{
    Client, Download, Links, Upload,
    tree::{Depth, Onto, Put},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use self::archive::check_archive;
use self::range::Part;
use super::{
    ask::{Json, Path, Query},
    operation::{Gives, Operation, call},
    problem::Problem,
    room::living,
    view,
    words::{FileView, Listing, MoveAsked, NewDirectory},
};
use crate::house::House;

type Shared = State<Arc<House>>;

/// The most entries of a list.
const MOST: usize = 10_000;
/// The permissions of a directory, if nobody says.
const DIRECTORY: u32 = 0o755;

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let (get, post, put) = (&Method::GET, &Method::POST, &Method::PUT);
    let (files, bytes) = ("/v1/sandboxes/{id}/files", "application/octet-stream");
    vec![
        call(get, files, ("readFile", "Read a file, or the part that `Range` names"), read)
            .query::<At>()
            .answers(200, Gives::Bytes(bytes)),
        call(put, files, ("writeFile", "Write a file"), write)
            .query::<Write>()
            .takes_bytes(bytes)
            .gives::<FileView>(200),
        call(&Method::DELETE, files, ("removeFile", "Remove a file or a directory"), remove)
            .query::<Remove>()
            .gives_nothing(),
        call(
            get,
            "/v1/sandboxes/{id}/files/stat",
            ("statFile", "Look at a file or a directory"),
            stat,
        )
        .query::<Stat>()
        .gives::<FileView>(200),
        call(get, "/v1/sandboxes/{id}/files/list", ("listFiles", "List a directory"), list)
            .query::<List>()
            .gives::<Listing>(200),
        call(
            post,
            "/v1/sandboxes/{id}/files/directory",
            ("makeDirectory", "Make a directory, and those that it lies in"),
            make,
        )
        .takes::<NewDirectory>()
        .gives::<FileView>(201),
        call(
            post,
            "/v1/sandboxes/{id}/files/move",
            ("moveFile", "Give something another name"),
            rename,
        )
        .takes::<MoveAsked>()
        .gives::<FileView>(200),
        watch::operation(),
        archive::down_operation(),
        archive::up_operation(),
    ]
}

/// Where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct At {
    /// The path; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
}

/// What to look at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stat {
    /// The path; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Whether a link is followed.
    #[serde(default)]
    follow: bool,
}

/// What to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// The path; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// How deep; 1 is only what is in the directory itself.
    #[schemars(range(min = 1, max = 64))]
    depth: Option<u32>,
    /// How many entries at most; 1000 if not said.
    #[schemars(range(min = 1, max = 10000))]
    limit: Option<usize>,
}

/// What to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The path; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// What happens to what is there; `replace` if not said.
    onto: Option<WriteMode>,
    /// Its permissions, such as 420 for `rw-r--r--`.
    #[schemars(range(max = 4095))]
    mode: Option<u32>,
    /// Whether directories that are missing are made; they are if not said.
    parents: Option<bool>,
}

/// What happens to a file that is there.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WriteMode {
    /// It is replaced at once when all has come.
    Replace,
    /// It is an error.
    New,
    /// What comes is added to it.
    Append,
}

/// What to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remove {
    /// The path; what is relative begins where programs of the sandbox start.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// The path from the root.
pub(super) async fn whole(client: &Client, path: &str) -> Result<Vec<u8>, Problem> {
    if path.is_empty() || 4096 < path.len() || path.contains('\0') {
        return Err(Problem::malformed("a path has 1 to 4096 bytes and no NUL"));
    }
    if path.starts_with('/') {
        return Ok(path.as_bytes().to_vec());
    }
    let dir = client.inspect().await?.dir;
    let dir = dir.map_or_else(|| b"/".to_vec(), |it| it.bytes().to_vec());
    let dir = dir.strip_suffix(b"/").unwrap_or(&dir);
    Ok([dir, b"/", path.as_bytes()].concat())
}

fn permissions(mode: Option<u32>) -> Result<Option<u32>, Problem> {
    match mode {
        Some(mode) if 0o7777 < mode => Err(Problem::malformed("`mode` is at most 4095")),
        mode => Ok(mode),
    }
}

async fn look(client: &Client, path: &[u8]) -> Result<Answer<FileView>, Problem> {
    Ok(Answer(view::file(path, &client.stat(path, Links::Keep).await?)))
}

async fn stat(
    State(house): Shared,
    Path(id): Path<String>,
    Query(asked): Query<Stat>,
) -> Result<Answer<FileView>, Problem> {
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let links = if asked.follow { Links::Follow } else { Links::Keep };
    Ok(Answer(view::file(&path, &client.stat(&path, links).await?)))
}

async fn list(
    State(house): Shared,
    Path(id): Path<String>,
    Query(asked): Query<List>,
) -> Result<Answer<Listing>, Problem> {
    let (depth, limit) = (asked.depth.unwrap_or(1), asked.limit.unwrap_or(1000));
    if !(1..=64).contains(&depth) || !(1..=MOST).contains(&limit) {
        let text = format!("`depth` is from 1 to 64, `limit` from 1 to {MOST}");
        return Err(Problem::malformed(text));
    }
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let (found, truncated) = client.list(&path, depth, limit).await?;
    let top = path.strip_suffix(b"/").unwrap_or(&path);
    let entry = |it: &bulkhead_engine::rooms::Named| {
        view::file(&[top, b"/", &it.path].concat(), &it.facts)
    };
    let mut entries: Vec<FileView> = found.iter().map(entry).collect();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Answer(Listing { entries, truncated }))
}

async fn read(
    State(house): Shared,
    Path(id): Path<String>,
    Query(asked): Query<At>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let wanted = headers.get(header::RANGE).and_then(|it| it.to_str().ok());
    let Some(wanted) = wanted else {
        let download = client.read(&path, 0, None).await?;
        let length = download.facts.size;
        let mut response = poured(download);
        // A file of /proc has no size and bytes nevertheless.
        if 0 < length {
            response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        }
        return Ok(response);
    };
    let facts = client.stat(&path, Links::Follow).await?;
    let Some(Part { start, length }) = Part::read(wanted, facts.size)? else {
        let download = client.read(&path, 0, None).await?;
        return Ok(poured(download));
    };
    let download = client.read(&path, start, Some(length)).await?;
    let mut response = poured(download);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let last = start + length - 1;
    let range = format!("bytes {start}-{last}/{}", facts.size);
    if let Ok(range) = HeaderValue::from_str(&range) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    Ok(response)
}

/// Bytes on their way out. One that breaks off breaks the answer off: nobody takes it for whole.
fn poured(download: Download) -> Response {
    let bytes = stream::unfold(Some(download), async |download| {
        let mut download = download?;
        match download.next().await {
            Ok(Some(bytes)) => Some((Ok(Bytes::from(bytes)), Some(download))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(bytes));
    let headers = response.headers_mut();
    let form = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, form);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What a sandbox wrote is data, whatever it looks like.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn write(
    State(house): Shared,
    Path(id): Path<String>,
    Query(asked): Query<Write>,
    body: Body,
) -> Result<Answer<FileView>, Problem> {
    let mode = permissions(asked.mode)?;
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    if asked.parents != Some(false) {
        let above = path.iter().rposition(|it| *it == b'/').and_then(|at| path.get(..at));
        if let Some(above @ [_, ..]) = above {
            client.make_dirs(above, DIRECTORY).await?;
        }
    }
    let put = match asked.onto.unwrap_or(WriteMode::Replace) {
        WriteMode::Replace => Put::Replace,
        WriteMode::New => Put::New,
        WriteMode::Append => Put::Append,
    };
    let upload = client.write(&path, put, mode).await?;
    filled(upload, body).await?;
    look(&client, &path).await
}

/// Passes a body on. One that breaks off leaves what was there.
async fn filled(mut upload: Upload, mut body: Body) -> Result<(), Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Problem::malformed(format!("the body broke off: {error}")))?;
        if let Ok(bytes) = frame.into_data()
            && upload.write(&bytes).await.is_err()
        {
            break;
        }
    }
    Ok(upload.finish().await?)
}

async fn remove(
    State(house): Shared,
    Path(id): Path<String>,
    Query(asked): Query<Remove>,
) -> Result<StatusCode, Problem> {
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    let depth = if asked.recursive { Depth::Everything } else { Depth::Itself };
    client.remove(&path, depth).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn make(
    State(house): Shared,
    Path(id): Path<String>,
    Json(asked): Json<NewDirectory>,
) -> Result<(StatusCode, Answer<FileView>), Problem> {
    let mode = permissions(asked.mode)?.unwrap_or(DIRECTORY);
    let (_, client) = living(&house, &id)?;
    let path = whole(&client, &asked.path).await?;
    client.make_dirs(&path, mode).await?;
    Ok((StatusCode::CREATED, look(&client, &path).await?))
}

async fn rename(
    State(house): Shared,
    Path(id): Path<String>,
    Json(asked): Json<MoveAsked>,
) -> Result<Answer<FileView>, Problem> {
    let (_, client) = living(&house, &id)?;
    let from = whole(&client, &asked.from).await?;
    let to = whole(&client, &asked.to).await?;
    let onto = if asked.replace { Onto::Anything } else { Onto::Nothing };
    client.rename(&from, &to, onto).await?;
    look(&client, &to).await
}
