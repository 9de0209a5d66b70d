//! Calls that are made once, however often they are asked for.
//!
//! Before such a call is made, its key is written down; afterwards its answer is. So whoever lost
//! the answer, to the network or to a server that was restarted, gets it by asking again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bulkhead_engine::rooms::{Listed, Record};
use http::{HeaderValue, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    ask::whole,
    guard::Caller,
    problem::{Kind, Problem},
};
use crate::{house::House, locked::locked, random};

/// How long an answer is kept.
const WINDOW: Duration = Duration::from_hours(24);
/// The longest key.
const LONGEST: usize = 255;

/// The label by which a room is known to be what a call made that nobody heard the end of.
const CALL: &str = "bulkhead.call";

/// What a call is known by: the same for the same key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved(Option<Begun>);

#[derive(Clone, Debug)]
struct Begun {
    slot: String,
    /// Of what it makes, if that is not there yet.
    id: String,
    before: Before,
}

/// Whether a call was begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Never,
    /// And nobody knows how it ended.
    Once,
}

impl Reserved {
    /// The id that what it makes is to have. It is on record before anything is made.
    pub(crate) fn id(&self) -> Result<String, Problem> {
        match &self.0 {
            Some(begun) => Ok(begun.id.clone()),
            None => fresh_id().map_err(|error| Problem::internal(&error)),
        }
    }

    /// Has `record` say by which call its room is made.
    pub(crate) fn sign(&self, record: &mut Record) {
        if let Some(begun) = &self.0 {
            record.labels.insert(CALL.to_owned(), begun.slot.clone());
        }
    }

    /// The room that the call made when it was made before, if that lives.
    pub(crate) fn made(&self, house: &House) -> Result<Option<Listed>, Problem> {
        let Some(begun) = self.0.as_ref().filter(|it| it.before == Before::Once) else {
            return Ok(None);
        };
        let is_its = |it: &Listed| it.record.labels.get(CALL) == Some(&begun.slot);
        Ok(house.journal.living()?.into_iter().find(is_its))
    }
}

fn fresh_id() -> io::Result<String> {
    Ok(format!("s{}", random::word(20)?))
}

impl<S: Send + Sync> FromRequestParts<S> for Reserved {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// The keys and answers of this server.
#[derive(Debug)]
pub(crate) struct Ledger {
    dir: PathBuf,
    /// Those whose calls are being made.
    busy: Mutex<BTreeSet<String>>,
}

/// What is written down.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// Of the request, to notice that a key is used for another one.
    fingerprint: String,
    /// Of what the call makes, unless that waited with an id of its own.
    id: String,
    answer: Option<Kept>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    status: u16,
    form: Option<String>,
    location: Option<String>,
    body: String,
}

/// What is known of a key.
enum Known {
    Nothing,
    Answered(Kept),
    /// Its call began, with this id for what it makes, and nobody knows how it ended.
    Interrupted(String),
    /// Its call is being made.
    Going,
    OtherRequest,
}

/// That a call is being made.
struct Turn<'a> {
    ledger: &'a Ledger,
    slot: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.ledger.busy().remove(&self.slot);
    }
}

impl Ledger {
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir, busy: Mutex::default() }
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        locked(&self.busy)
    }

    fn path(&self, slot: &str) -> PathBuf {
        self.dir.join(format!("{slot}.json"))
    }

    /// Takes the turn to make the call of `slot`, if it is to be made.
    fn begin(&self, slot: &str, fingerprint: &str) -> io::Result<(Known, Option<Turn<'_>>)> {
        if !self.busy().insert(slot.to_owned()) {
            return Ok((Known::Going, None));
        }
        let turn = Turn { ledger: self, slot: slot.to_owned() };
        let path = self.path(slot);
        let text = match fs::read(&path) {
            Ok(text) if !is_old(&path) => text,
            Ok(_) => return Ok((Known::Nothing, Some(turn))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Known::Nothing, Some(turn)));
            }
            Err(error) => return Err(error),
        };
        let Ok(entry) = serde_json::from_slice::<Entry>(&text) else {
            // Cut short by a crash before the call was made.
            return Ok((Known::Nothing, Some(turn)));
        };
        let known = match entry {
            Entry { fingerprint: it, .. } if it != fingerprint => Known::OtherRequest,
            Entry { answer: Some(kept), .. } => Known::Answered(kept),
            Entry { id, answer: None, .. } => Known::Interrupted(id),
        };
        Ok((known, Some(turn)))
    }

    fn write(&self, slot: &str, entry: &Entry) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let fresh = self.dir.join(format!("{slot}.new"));
        let mut file = File::options();
        let mut file = file.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.sync_all()?;
        fs::rename(&fresh, self.path(slot))
    }

    fn forget(&self, slot: &str) {
        fs::remove_file(self.path(slot)).unwrap_or_default();
    }

    /// Removes what is older than anybody may ask for.
    pub(crate) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            if is_old(&entry.path()) {
                fs::remove_file(entry.path()).unwrap_or_default();
            }
        }
    }
}

fn is_old(path: &Path) -> bool {
    let written = path.metadata().and_then(|it| it.modified());
    let age = written.ok().and_then(|it| SystemTime::now().duration_since(it).ok());
    age.is_some_and(|it| WINDOW < it)
}

/// Makes the call once for each key; whoever repeats it gets the first answer again.
pub(crate) async fn once(
    State(house): State<Arc<House>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(key) = request.headers().get("idempotency-key") else {
        return Ok(next.run(request).await);
    };
    let key = key.to_str().ok().filter(|it| (1..=LONGEST).contains(&it.len()));
    let key =
        key.ok_or_else(|| Problem::malformed("an Idempotency-Key has 1 to 255 letters"))?;
    let caller = request.extensions().get::<Caller>().map(|it| it.name.clone());
    let slot = hash(&[caller.unwrap_or_default().as_bytes(), key.as_bytes()]);
    let (parts, body) = request.into_parts();
    let body = whole(body).await?;
    let target = parts.uri.path_and_query().map_or("", |it| it.as_str());
    let fingerprint = hash(&[parts.method.as_str().as_bytes(), target.as_bytes(), &body]);
    let lost = if parts.uri.path() == "/v1/sandboxes" { Lost::Found } else { Lost::Unknown };
    request = Request::from_parts(parts, Body::from(body));
    // In a task of its own: the answer counts though whoever asked may be gone by then.
    let made = tokio::spawn(async move {
        let system = |error: io::Error| Problem::internal(&error);
        let ledger = &house.api.ledger;
        let (known, turn) = ledger.begin(&slot, &fingerprint).map_err(system)?;
        let (id, before) = match known {
            Known::Nothing => (fresh_id().map_err(system)?, Before::Never),
            Known::Interrupted(id) if lost == Lost::Found => (id, Before::Once),
            Known::Interrupted(_) | Known::Going => return Err(unsettled(&known)),
            Known::OtherRequest => {
                let text = "this Idempotency-Key was used for another request";
                return Err(Problem::new(Kind::KeyReused, text));
            }
            Known::Answered(kept) => return Ok(replayed(&kept)),
        };
        let entry = Entry { fingerprint, id: id.clone(), answer: None };
        ledger.write(&slot, &entry).map_err(system)?;
        let begun = Begun { slot: slot.clone(), id, before };
        request.extensions_mut().insert(Reserved(Some(begun)));
        let response = next.run(request).await;
        let response = settle((ledger, lost), &slot, entry, response).await;
        drop(turn);
        response
    });
    made.await.map_err(|error| Problem::internal(&error))?
}

/// What becomes of what a call made whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// It says by which call it was made, so it is found.
    Found,
    Unknown,
}

fn unsettled(known: &Known) -> Problem {
    let (text, hint) = if matches!(known, Known::Going) {
        ("the first call with this key is not over", "ask again soon")
    } else {
        (
            "the server was stopped while it made this call; what became of it is not known",
            "look at the sandbox, and use another key",
        )
    };
    Problem::new(Kind::KeyUnsettled, text).hint(hint)
}

/// Writes the answer down. What may go better the next time is forgotten, or looked for then.
async fn settle(
    (ledger, lost): (&Ledger, Lost),
    slot: &str,
    entry: Entry,
    response: Response,
) -> Result<Response, Problem> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.map_err(|error| Problem::internal(&error))?;
    let again = parts.status.is_server_error() || parts.status == StatusCode::TOO_MANY_REQUESTS;
    if again && lost == Lost::Unknown {
        ledger.forget(slot);
    } else if !again {
        let text = |name: header::HeaderName| {
            parts.headers.get(name).and_then(|it| it.to_str().ok()).map(str::to_owned)
        };
        let kept = Kept {
            status: parts.status.as_u16(),
            form: text(header::CONTENT_TYPE),
            location: text(header::LOCATION),
            body: STANDARD.encode(&body),
        };
        let written = ledger.write(slot, &Entry { answer: Some(kept), ..entry });
        if let Err(error) = written {
            tracing::warn!(%error, "an answer is not on record");
        }
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn replayed(kept: &Kept) -> Response {
    let body: Bytes = STANDARD.decode(&kept.body).unwrap_or_default().into();
    let mut response = body.into_response();
    *response.status_mut() = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    let mut put = |name, text: Option<&String>| {
        if let Some(value) = text.and_then(|it| HeaderValue::from_str(it).ok()) {
            headers.insert(name, value);
        }
    };
    put(header::CONTENT_TYPE, kept.form.as_ref());
    put(header::LOCATION, kept.location.as_ref());
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}

/// A hash of parts that cannot run into each other.
fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fingerprint: &str, answer: Option<Kept>) -> Entry {
        Entry { fingerprint: fingerprint.to_owned(), id: "s1".to_owned(), answer }
    }

    #[test]
    fn a_key_is_known_again_by_the_next_server() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept { status: 201, form: None, location: None, body: String::new() };
        let ledger = Ledger::at(dir.path().join("keys"));
        let (known, turn) = ledger.begin("a", "request").unwrap();
        assert!(matches!(known, Known::Nothing));
        assert!(matches!(ledger.begin("a", "request").unwrap().0, Known::Going));
        ledger.write("a", &entry("request", None)).unwrap();
        drop(turn);
        let next = Ledger::at(dir.path().join("keys"));
        let known = next.begin("a", "request").unwrap().0;
        assert!(matches!(known, Known::Interrupted(id) if id == "s1"));
        next.write("a", &entry("request", Some(kept))).unwrap();
        assert!(matches!(next.begin("a", "request").unwrap().0, Known::Answered(_)));
        assert!(matches!(next.begin("a", "other").unwrap().0, Known::OtherRequest));
    }
}
