//! A build by `BuildKit`, and what it tells meanwhile.
//!
//! All files go with the request, so nothing of `BuildKit`'s own protocol is needed but the records in
//! which it tells how far it is. They are messages of Protocol Buffers, of which four fields matter.

use std::collections::BTreeSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bulkhead_spec::escape;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde::Deserialize;

use super::{BuildError, Engine, Progress, progress::Heard};
use crate::http::{Client, NoAnswer, Reach, send_to_socket, whole};

/// The longest complaint that is read, and the longest line of a build.
const LONGEST: u64 = 4 << 20;
/// The kind of a record.
const TRACE: &str = "moby.buildkit.trace";

/// Has the engine build what `query` says from the files of `context`.
pub(super) async fn make(
    engine: &Engine,
    query: &[(&str, String)],
    context: Bytes,
    say: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let mut body = ask(engine, query, context).await?;
    let mut told = Told::default();
    let mut rest = Vec::new();
    // A step may be silent for as long as it likes.
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            told.line(&line, say)?;
        }
        if LONGEST < rest.len() as u64 {
            return Err(broken(&"a line of it is too long"));
        }
    }
    told.line(&rest, say)
}

async fn ask(
    engine: &Engine,
    query: &[(&str, String)],
    context: Bytes,
) -> Result<Incoming, BuildError> {
    let host = match engine {
        Engine::Socket(_) => "localhost",
        Engine::Tcp(host) => host,
    };
    let request = Request::post(format!("http://{host}/build?{}", encoded(query)))
        .header(http::header::CONTENT_TYPE, "application/x-tar")
        .body(Full::new(context))
        .map_err(|error| broken(&error))?;
    let answer = match engine {
        Engine::Socket(path) => send_to_socket(path, request).await,
        Engine::Tcp(_) => Client::default().send(request, Reach::Anywhere).await,
    };
    let answer = answer.map_err(|error: NoAnswer| broken(&error))?;
    if answer.status() == StatusCode::OK {
        return Ok(answer.into_body());
    }
    let status = answer.status();
    let text = whole(answer.into_body(), LONGEST).await.unwrap_or_default();
    let said = serde_json::from_slice::<Complaint>(&text).map(|it| it.message);
    let said = escape(&said.unwrap_or_else(|_| status.to_string()));
    Err(BuildError::Step { said, output: Vec::new() })
}

fn broken(why: &dyn std::fmt::Display) -> BuildError {
    let said = format!("the daemon does not answer: {}", escape(&why.to_string()));
    BuildError::Step { said, output: Vec::new() }
}

/// Names and values as an address has them.
fn encoded(query: &[(&str, String)]) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    let quoted = |text: &str| -> String {
        let byte = |it: u8| {
            if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }
        };
        text.bytes().map(byte).collect()
    };
    let pairs = query.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[derive(Deserialize)]
struct Complaint {
    message: String,
}

/// One thing that a builder says. Podman's says it in words, as classic ones do.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: String,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    aux: serde_json::Value,
    error: Option<String>,
}

/// What was told so far.
#[derive(Default)]
struct Told {
    heard: Heard,
    /// The steps that there are, by their digests, as far as they have a number.
    steps: BTreeSet<Vec<u8>>,
    /// Those that have begun.
    begun: BTreeSet<Vec<u8>>,
}

impl Told {
    fn line(&mut self, line: &[u8], say: &mut dyn FnMut(Progress)) -> Result<(), BuildError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| broken(&error))?;
        if let Some(error) = line.error {
            return Err(std::mem::take(&mut self.heard).ended(&error));
        }
        self.heard.take(&line.stream, say);
        if line.id == TRACE {
            let record = line.aux.as_str().map(|it| BASE64_STANDARD.decode(it));
            if let Some(Ok(record)) = record {
                self.record(&record, say);
            }
        }
        Ok(())
    }

    /// `StatusResponse`: steps are its field 1, what they say is field 3.
    fn record(&mut self, record: &[u8], say: &mut dyn FnMut(Progress)) {
        let steps: Vec<Step<'_>> = messages(record, 1).map(Step::read).collect();
        let numbered = steps.iter().filter(|it| it.what().is_some());
        self.steps.extend(numbered.map(|it| it.digest.to_vec()));
        for step in steps {
            let Some(what) = step.what().filter(|_| step.begun) else { continue };
            if self.begun.insert(step.digest.to_vec()) {
                let count = |of: &BTreeSet<_>| u32::try_from(of.len()).unwrap_or(u32::MAX);
                let (at, of) = (count(&self.begun), count(&self.steps));
                say(Progress::Step { at, of, what: escape(&what) });
            }
        }
        // `VertexLog`: the bytes are its field 4.
        for log in messages(record, 3) {
            for text in messages(log, 4) {
                self.heard.take(&String::from_utf8_lossy(text), say);
            }
        }
    }
}

/// `Vertex`: its digest, what it is called, and whether it has begun.
#[derive(Default)]
struct Step<'a> {
    digest: &'a [u8],
    name: &'a [u8],
    begun: bool,
}

impl<'a> Step<'a> {
    fn read(message: &'a [u8]) -> Self {
        let mut step = Self::default();
        for (number, content) in (Fields { rest: message }) {
            match number {
                1 => step.digest = content,
                3 => step.name = content,
                5 => step.begun = true,
                _ => {}
            }
        }
        step
    }

    /// The instruction of a step that has a number: `[build 2/3] RUN make`, not `[internal] …`.
    fn what(&self) -> Option<String> {
        let name = String::from_utf8_lossy(self.name);
        let (mark, what) = name.strip_prefix('[')?.split_once("] ")?;
        let (at, of) = mark.rsplit(' ').next()?.split_once('/')?;
        let number = |it: &str| it.parse::<u32>().is_ok();
        (number(at) && number(of)).then(|| what.to_owned())
    }
}

/// The contents of the fields `number` of a message.
fn messages(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    Fields { rest: message }.filter(move |it| it.0 == number).map(|it| it.1)
}

/// The fields of a message that have a length; the others are passed over. Ends where it is not
/// well formed.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.number()?;
            let length = match key & 7 {
                0 => {
                    self.number()?;
                    continue;
                }
                1 => 8,
                2 => usize::try_from(self.number()?).ok()?,
                5 => 4,
                _ => return None,
            };
            let (content, rest) = self.rest.split_at_checked(length)?;
            self.rest = rest;
            if key & 7 == 2 {
                return Some((key >> 3, content));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with a length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 0x80);
        [&[number << 3 | 2, length], content].concat()
    }

    /// When a step began, and that it has not.
    const BEGUN: &[u8] = &[8, 1];
    const WAITS: &[u8] = &[];

    fn step(digest: &str, name: &str, since: &[u8]) -> Vec<u8> {
        // A number in between, as `cached` is one.
        let mut step = [field(1, digest.as_bytes()), field(3, name.as_bytes())].concat();
        step.extend([4 << 3, 1]);
        if !since.is_empty() {
            step.extend(field(5, since));
        }
        field(1, &step)
    }

    fn line(record: &[u8]) -> Vec<u8> {
        let aux = BASE64_STANDARD.encode(record);
        format!("{{\"id\":\"{TRACE}\",\"aux\":\"{aux}\"}}\r\n").into_bytes()
    }

    fn tell(told: &mut Told, text: &[u8]) -> (Vec<Progress>, Result<(), BuildError>) {
        let mut all = Vec::new();
        let done = told.line(text, &mut |it| all.push(it));
        (all, done)
    }

    #[test]
    fn steps_are_counted_and_what_they_say_is_told_by_lines() {
        let mut told = Told::default();
        let first = [
            step("a", "[internal] load build definition", BEGUN),
            step("b", "[build 1/2] FROM tiny", BEGUN),
            step("c", "[build 2/2] RUN \u{1b}make", WAITS),
        ];
        let (said, _) = tell(&mut told, &line(&first.concat()));
        assert_eq!(said, [Progress::Step { at: 1, of: 2, what: "FROM tiny".to_owned() }]);
        let log = field(3, &[field(1, b"c"), field(4, b"one\ntw")].concat());
        let again = [step("c", "[build 2/2] RUN \u{1b}make", BEGUN), log].concat();
        let (said, _) = tell(&mut told, &line(&again));
        let what = escape("RUN \u{1b}make");
        let expected =
            [Progress::Step { at: 2, of: 2, what }, Progress::Output("one".to_owned())];
        assert_eq!(said, expected);
        // The same is not told twice.
        assert_eq!(tell(&mut told, &line(&step("c", "[build 2/2] RUN x", BEGUN))).0, []);
    }

    #[test]
    fn a_step_that_fails_says_so_with_its_last_words() {
        let mut told = Told::default();
        let log = field(3, &field(4, b"trouble\n"));
        tell(&mut told, &line(&log)).1.unwrap();
        let failed = tell(&mut told, b"{\"error\":\"exit code: 1\"}\r\n").1.unwrap_err();
        let BuildError::Step { said, output } = failed else { panic!("{failed}") };
        assert_eq!((said.as_str(), output), ("exit code: 1", vec!["trouble".to_owned()]));
    }

    #[test]
    fn records_that_are_cut_off_or_nonsense_tell_nothing() {
        let whole = step("b", "[1/1] FROM tiny", BEGUN);
        for end in 0..whole.len() {
            let mut told = Told::default();
            let (said, done) = tell(&mut told, &line(&whole[..end]));
            assert_eq!((said, done.is_ok()), (vec![], true), "{end}");
        }
        let mut told = Told::default();
        assert!(tell(&mut told, &line(&[0xff; 40])).0.is_empty());
        assert!(
            tell(&mut told, b"{\"id\":\"moby.image.id\",\"aux\":{\"ID\":\"x\"}}").1.is_ok()
        );
        assert!(tell(&mut told, b"<html>").1.is_err());
    }

    #[test]
    fn values_cannot_become_more_than_values() {
        let query = [("t", "a:b".to_owned()), ("buildargs", "{\"A\":\"1&x=2\"}".to_owned())];
        assert_eq!(encoded(&query), "t=a%3Ab&buildargs=%7B%22A%22%3A%221%26x%3D2%22%7D");
    }
}
