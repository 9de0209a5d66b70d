//! Bytes of files: up, down, and by signed address.

use std::{
    io::Write as _,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{body::Body, extract::Request, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bulkhead_engine::rooms::{
    ClientError, Download, Links, Upload,
    tree::{Kind, Notes, Put},
};
use flate2::write::GzDecoder;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    super::{
        error::{json_body, plain},
        filter::pairs,
    },
    entry::{NOTED, absolute, metadata},
};
use crate::{
    house::{House, Tenant},
    keys::same,
};

type Query = Vec<(String, String)>;

/// The longest name of something that is noted beside a file: the kernel takes no longer ones.
const LONGEST_KEY: usize = 246;
/// The most that is noted beside a file, in bytes.
const MOST_NOTED: usize = 4096;

fn value<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
}

/// Answers a request for a file of a room that is known.
pub(super) async fn answer(tenant: &Arc<Tenant>, request: Request) -> Response {
    let query = pairs(request.uri().query().unwrap_or_default());
    if let Err(response) = allowed(tenant, request.headers(), request.method(), &query) {
        return *response;
    }
    match value(&query, "username") {
        None | Some("" | "user") => {}
        Some("root") => return plain(400, super::NO_ROOT),
        Some(user) => {
            let text = format!("error looking up user '{user}': there is only 'user'");
            return plain(401, &text);
        }
    }
    match *request.method() {
        Method::GET => download(tenant, request.headers(), &query).await,
        Method::POST => upload(tenant, &query, request).await,
        _ => plain(405, "files are read with GET and written with POST"),
    }
}

/// Answers a request that names no room: the signature does.
pub(crate) async fn signed(house: &House, request: Request) -> Response {
    let query = pairs(request.uri().query().unwrap_or_default());
    let given = value(&query, "signature").unwrap_or_default();
    let operation = operation(request.method());
    let matches = |it: &Arc<Tenant>| {
        it.facts
            .access
            .as_ref()
            .is_some_and(|token| same(given, &signature(&query, operation, token)))
    };
    match house.tenants().into_iter().find(matches) {
        Some(tenant) => answer(&tenant, request).await,
        None => plain(401, "missing or invalid signature"),
    }
}

fn operation(method: &Method) -> &'static str {
    if *method == Method::GET { "read" } else { "write" }
}

/// What a client signs a file's address with.
fn signature(query: &Query, operation: &str, token: &str) -> String {
    let path = value(query, "path").unwrap_or_default();
    let user = value(query, "username").unwrap_or_default();
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(expires) = value(query, "signature_expiration") {
        text = format!("{text}:{expires}");
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text.as_bytes())))
}

/// Lets in whoever has the token of the room, or an address that was signed with it.
fn allowed(
    tenant: &Tenant,
    headers: &HeaderMap,
    method: &Method,
    query: &Query,
) -> Result<(), Box<Response>> {
    let Some(token) = &tenant.facts.access else { return Ok(()) };
    let refused = |message: &str| Err(Box::new(plain(401, message)));
    if let Some(given) = headers.get("x-access-token").and_then(|it| it.to_str().ok()) {
        if same(given, token) {
            return Ok(());
        }
        return refused("unauthorized access, please provide a valid access token");
    }
    let Some(given) = value(query, "signature") else {
        return refused("missing signature query parameter");
    };
    if !same(given, &signature(query, operation(method), token)) {
        return refused("invalid signature");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match value(query, "signature_expiration").map(str::parse::<u64>) {
        Some(Ok(expires)) if expires < now => refused("signature is already expired"),
        Some(Err(_)) => refused("invalid signature_expiration"),
        Some(Ok(_)) | None => Ok(()),
    }
}

async fn download(tenant: &Tenant, headers: &HeaderMap, query: &Query) -> Response {
    let path = absolute(value(query, "path").unwrap_or_default());
    let facts = match tenant.client.stat(path.as_bytes(), Links::Follow).await {
        Ok(facts) => facts,
        Err(error) => return refused(&error, &path),
    };
    if facts.kind != Kind::File {
        return plain(400, &format!("path '{path}' is not a file"));
    }
    let range = headers.get(header::RANGE).and_then(|it| it.to_str().ok());
    let part = match range.map(|it| part(it, facts.size)) {
        None => None,
        Some(Some(part)) => Some(part),
        Some(None) => return plain(416, "there is no such part of the file"),
    };
    let (offset, length) = part.unwrap_or((0, facts.size));
    let reading = match tenant.client.read(path.as_bytes(), offset, Some(length)).await {
        Ok(reading) => reading,
        Err(error) => return refused(&error, &path),
    };
    let mut response = Response::new(Body::from_stream(chunks(reading)));
    let mut set = |name: header::HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, "application/octet-stream");
    set(header::CONTENT_LENGTH, &length.to_string());
    set(header::ACCEPT_RANGES, "bytes");
    if part.is_some() {
        let last = (offset + length).saturating_sub(1);
        set(header::CONTENT_RANGE, &format!("bytes {offset}-{last}/{}", facts.size));
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

/// `bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-COUNT` as offset and length.
fn part(range: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => (first, last.checked_add(1)?.min(size)),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(count)) if first.is_empty() => (size.saturating_sub(count), size),
        (Ok(_) | Err(_), _) => return None,
    };
    (first < end).then_some((first, end - first))
}

pub(crate) fn chunks(
    reading: Download,
) -> impl futures_util::Stream<Item = Result<Vec<u8>, ClientError>> {
    stream::unfold(Some(reading), async |reading| {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(reading))),
            Ok(None) => None,
            // The length was promised, so an early end is seen.
            Err(error) => Some((Err(error), None)),
        }
    })
}

async fn upload(tenant: &Tenant, query: &Query, request: Request) -> Response {
    let notes = match noted(request.headers()) {
        Ok(notes) => notes,
        Err(message) => return plain(400, &message),
    };
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let written = match multer::parse_boundary(&kind) {
        Ok(boundary) => parts((tenant, &notes), query, boundary, request).await,
        Err(_) => whole((tenant, &notes), query, request).await,
    };
    match written {
        Ok(files) => json_body(200, &Value::Array(files)),
        Err(response) => *response,
    }
}

/// What a client wants to be noted beside the files of a request.
fn noted(headers: &HeaderMap) -> Result<Notes, String> {
    let mut all = Vec::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix("x-metadata-") else { continue };
        let printable = value.as_bytes().iter().all(|it| (0x20..=0x7e).contains(it));
        if key.is_empty() || LONGEST_KEY < key.len() || !printable {
            return Err(format!(
                "metadata '{key}': a key has 1 to {LONGEST_KEY} letters, \
                 and a value is printable ASCII"
            ));
        }
        all.push((format!("{NOTED}{key}").into_bytes(), value.as_bytes().to_vec()));
    }
    let length = |(key, value): &(Vec<u8>, Vec<u8>)| key.len() - NOTED.len() + value.len();
    if MOST_NOTED < all.iter().map(length).sum() {
        return Err(format!("metadata of a file is at most {MOST_NOTED} bytes"));
    }
    Ok(Notes { prefix: NOTED.as_bytes().to_vec(), all })
}

type Written<T> = Result<T, Box<Response>>;

/// The body is the file.
async fn whole(
    (tenant, notes): (&Tenant, &Notes),
    query: &Query,
    request: Request,
) -> Written<Vec<Value>> {
    let Some(path) = value(query, "path") else {
        return Err(Box::new(plain(400, "path is missing")));
    };
    let zipped = request
        .headers()
        .get(header::CONTENT_ENCODING)
        .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"gzip"));
    let mut file = Fresh::begin(tenant, path, notes).await?;
    let mut body = request.into_body().into_data_stream();
    let mut unzip = zipped.then(|| GzDecoder::new(Vec::new()));
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| Box::new(plain(400, &error.to_string())))?;
        match &mut unzip {
            None => file.put(&chunk).await,
            Some(unzip) => {
                let bad = |error: std::io::Error| Box::new(plain(400, &error.to_string()));
                unzip.write_all(&chunk).map_err(bad)?;
                let bytes = std::mem::take(unzip.get_mut());
                file.put(&bytes).await;
            }
        }
    }
    if let Some(unzip) = unzip {
        let rest = unzip.finish();
        let rest = rest.map_err(|error| Box::new(plain(400, &error.to_string())))?;
        file.put(&rest).await;
    }
    Ok(vec![file.finish().await?])
}

/// Each part is a file, named by its file name unless the address names it.
async fn parts(
    (tenant, notes): (&Tenant, &Notes),
    query: &Query,
    boundary: String,
    request: Request,
) -> Written<Vec<Value>> {
    let bad = |error: multer::Error| Box::new(plain(400, &error.to_string()));
    let mut parts = multer::Multipart::new(request.into_body().into_data_stream(), boundary);
    let mut files: Vec<Value> = Vec::new();
    while let Some(mut field) = parts.next_field().await.map_err(bad)? {
        if field.name() != Some("file") {
            continue;
        }
        let path = value(query, "path").map(str::to_owned);
        let path = path.or_else(|| field.file_name().map(str::to_owned));
        let Some(path) = path else {
            return Err(Box::new(plain(400, "a part has no file name")));
        };
        let mut file = Fresh::begin(tenant, &path, notes).await?;
        if files.iter().any(|it| it.get("path").and_then(Value::as_str) == Some(&file.path)) {
            let text = format!("you cannot upload multiple files to the same path '{path}'");
            return Err(Box::new(plain(400, &text)));
        }
        while let Some(chunk) = field.chunk().await.map_err(bad)? {
            file.put(&chunk).await;
        }
        files.push(file.finish().await?);
    }
    Ok(files)
}

/// A file that is being uploaded.
struct Fresh {
    path: String,
    upload: Upload,
    taken: bool,
    /// What is noted beside it.
    notes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Fresh {
    async fn begin(tenant: &Tenant, path: &str, notes: &Notes) -> Written<Self> {
        let path = absolute(path);
        let client = &tenant.client;
        let failed = |error: ClientError| Box::new(refused(&error, &path));
        if let Some((dir, _)) = path.rsplit_once('/')
            && !dir.is_empty()
            && !client.exists(dir.as_bytes()).await.map_err(failed)?
        {
            client.make_dirs(dir.as_bytes(), 0o755).await.map_err(failed)?;
        }
        // Each upload is all that is known of a file.
        let upload = client.write_noted(path.as_bytes(), Put::InPlace, notes.clone()).await;
        let upload = upload.map_err(failed)?;
        Ok(Self { path, upload, taken: true, notes: notes.all.clone() })
    }

    /// Bytes that are not taken are dropped; why is told at the end.
    async fn put(&mut self, bytes: &[u8]) {
        self.taken = self.taken && self.upload.write(bytes).await.is_ok();
    }

    async fn finish(self) -> Written<Value> {
        let finished = self.upload.finish().await;
        finished.map_err(|error| Box::new(refused(&error, &self.path)))?;
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let mut object = json!({ "name": name, "path": self.path, "type": "file" });
        if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata(&self.notes))
        {
            object.insert("metadata".to_owned(), metadata);
        }
        Ok(object)
    }
}

fn refused(error: &ClientError, path: &str) -> Response {
    match error {
        ClientError::Gone(_) => plain(502, "The sandbox was not found"),
        ClientError::Confused(_) => plain(500, &error.to_string()),
        ClientError::Failed(failed) => match failed.kind.as_str() {
            "no_file" => plain(404, &format!("path '{path}' does not exist")),
            "disk_full" => plain(507, "not enough disk space available"),
            "forbidden" => plain(403, &format!("path '{path}': {}", failed.message)),
            _ => plain(400, &format!("path '{path}': {}", failed.message)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_files_are_understood() {
        assert_eq!(part("bytes=0-3", 10), Some((0, 4)));
        assert_eq!(part("bytes=8-99", 10), Some((8, 2)));
        assert_eq!(part("bytes=4-", 10), Some((4, 6)));
        assert_eq!(part("bytes=-3", 10), Some((7, 3)));
        assert_eq!(part("bytes=10-", 10), None);
        assert_eq!(part("lines=1-2", 10), None);
    }

    #[test]
    fn a_signature_depends_on_everything() {
        let query = |path: &str| vec![("path".to_owned(), path.to_owned())];
        let one = signature(&query("/a"), "read", "t");
        assert!(one.starts_with("v1_"));
        for other in [
            signature(&query("/b"), "read", "t"),
            signature(&query("/a"), "write", "t"),
            signature(&query("/a"), "read", "u"),
        ] {
            assert_ne!(one, other);
        }
    }
}
