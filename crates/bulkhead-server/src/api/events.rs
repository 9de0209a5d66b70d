//! What happened, from the record.
//!
//! Everybody who listens reads the record at their own pace, so nothing waits for them and nothing
//! is lost on them.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ask::Query,
    operation::{Operation, call},
    problem::Problem,
    room::is_name,
    sse::{Events, Gone, last_seen, wanted},
    words::{EventPage, EventView},
};
use crate::house::House;

/// How much of the record is read at once.
const CHUNK: u64 = 1 << 20;
/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The most events on a page.
const PAGE: usize = 1000;

/// `GET /v1/events`
pub(super) fn operation() -> Operation {
    call(
        &Method::GET,
        "/v1/events",
        ("listEvents", "What happened; with `Accept: text/event-stream` also what happens"),
        events,
    )
    .query::<Which>()
    .gives_or_tells::<EventPage>()
}

/// Which events.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only of this sandbox, by its id.
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    sandbox: Option<String>,
    /// After this one; from the beginning if not said, and for a stream from now on.
    #[schemars(regex(pattern = "^[0-9]{1,19}$"))]
    cursor: Option<String>,
    /// How many at most on a page; 100 if not said.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

async fn events(
    State(house): State<Arc<House>>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = which.limit.unwrap_or(100);
    if !(1..=PAGE).contains(&limit) {
        return Err(Problem::malformed(format!("`limit` is from 1 to {PAGE}")));
    }
    if which.sandbox.as_deref().is_some_and(|it| !is_name(it)) {
        return Err(Problem::malformed("`sandbox` is no id"));
    }
    let given = which.cursor.as_deref().or(last_seen(&headers));
    let at = given.map(str::parse::<u64>);
    let at = at.transpose().map_err(|_| Problem::malformed("`cursor` is no cursor"))?;
    let path = house.api.events.clone();
    let reader = Reader { at: at.unwrap_or(0), sandbox: which.sandbox };
    if !wanted(&headers) {
        let page = reader.page(&path, limit).map_err(|error| Problem::internal(&error))?;
        return Ok(Answer(page).into_response());
    }
    let listener = house.listen()?;
    let end = std::fs::metadata(&path).map_or(0, |it| it.len());
    let reader = Reader { at: at.unwrap_or(end), ..reader };
    let (events, response) = Events::open();
    tokio::spawn(async move {
        tokio::select! {
            told = reader.tell(&path, &events) => drop(told),
            () = events.left() => {}
        }
        drop(listener);
    });
    Ok(response)
}

/// Somebody who reads the record.
struct Reader {
    at: u64,
    sandbox: Option<String>,
}

impl Reader {
    fn page(mut self, path: &Path, limit: usize) -> io::Result<EventPage> {
        let mut events = Vec::new();
        while events.len() < limit {
            let before = self.at;
            let most = limit - events.len();
            events.extend(self.next(path, most)?);
            if self.at == before {
                break;
            }
        }
        Ok(EventPage { events, next_cursor: self.at.to_string() })
    }

    async fn tell(mut self, path: &Path, events: &Events) -> Result<(), Gone> {
        loop {
            let before = self.at;
            for event in self.next(path, PAGE).unwrap_or_default() {
                events.send("event", Some(&event.cursor), &event).await?;
            }
            if self.at == before {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// At most `most` of the next events.
    fn next(&mut self, path: &Path, most: usize) -> io::Result<Vec<EventView>> {
        let mut found = Vec::new();
        let wanted =
            |it: &EventView| self.sandbox.as_ref().is_none_or(|sandbox| *sandbox == it.sandbox);
        let lines = lines(path, self.at)?;
        for (end, line) in lines {
            if found.len() == most {
                break;
            }
            self.at = end;
            if let Some(event) = parsed(end, &line).filter(wanted) {
                found.push(event);
            }
        }
        Ok(found)
    }
}

fn parsed(end: u64, line: &[u8]) -> Option<EventView> {
    let Value::Object(mut all) = serde_json::from_slice(line).ok()? else { return None };
    let time = all.remove("time").and_then(|it| it.as_u64()).unwrap_or(0);
    let sandbox = all.remove("sandbox");
    let sandbox = sandbox.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(EventView { cursor: end.to_string(), time, sandbox, what: all.into_iter().collect() })
}

/// Some whole lines of the record after `at`, each with where it ends.
pub(super) fn lines(path: &Path, at: u64) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // A cursor that was made up may lie further on than a file can be long.
    if file.metadata()?.len() <= at {
        return Ok(Vec::new());
    }
    file.seek(SeekFrom::Start(at))?;
    let mut chunk = Vec::new();
    file.take(CHUNK).read_to_end(&mut chunk)?;
    let mut end = at;
    let mut found = Vec::new();
    for line in chunk.split_inclusive(|it| *it == b'\n') {
        // One that is being written comes the next time.
        if !line.ends_with(b"\n") {
            break;
        }
        end += u64::try_from(line.len()).unwrap_or(0);
        found.push((end, line.to_vec()));
    }
    // A line that is longer than what is read at once is left out, so that others are reached.
    if found.is_empty() && u64::try_from(chunk.len()).unwrap_or(0) == CHUNK {
        found.push((at + CHUNK, Vec::new()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_read_page_by_page_and_by_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let text = "{\"time\":1,\"sandbox\":\"a\",\"event\":\"created\"}\n\
                    not json\n\
                    {\"time\":2,\"sandbox\":\"b\",\"event\":\"created\"}\n\
                    {\"time\":3,\"sandbox\":\"a\",\"event\":\"destr";
        std::fs::write(&path, text).unwrap();
        let page = Reader { at: 0, sandbox: None }.page(&path, 1).unwrap();
        let seen: Vec<_> = page.events.iter().map(|it| it.sandbox.as_str()).collect();
        assert_eq!(seen, ["a"]);
        let at = page.next_cursor.parse().unwrap();
        let page = Reader { at, sandbox: Some("b".to_owned()) }.page(&path, 10).unwrap();
        assert_eq!(page.events.len(), 1);
        assert_eq!(page.events[0].what["event"], "created");
        let at: u64 = page.next_cursor.parse().unwrap();
        let page = Reader { at, sandbox: None }.page(&path, 10).unwrap();
        assert_eq!((page.events.len(), page.next_cursor), (0, at.to_string()));
        for at in [at + 1000, 487_297_620_408_652, u64::MAX] {
            let page = Reader { at, sandbox: None }.page(&path, 10).unwrap();
            assert!(page.events.is_empty(), "{at}");
        }
    }
}
