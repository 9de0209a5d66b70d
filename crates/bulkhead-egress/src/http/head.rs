//! The head of a request, read so that nobody could read it otherwise.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::{
    body::Framing,
    headers::{self, Upgrade},
};
use crate::wire::Wire;

/// The most that a head may take.
const LONGEST: usize = 64 << 10;

/// The most headers that it may have.
const HEADERS: usize = 128;

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Head {
    /// What is to be done.
    pub(crate) method: Method,
    /// With what, as it was written.
    pub(crate) target: String,
    /// The host that it names.
    pub(crate) host: Option<String>,
    /// What goes on to the host; nothing that is between two neighbours only.
    pub(crate) headers: HeaderMap,
    /// Where its body ends.
    pub(crate) framing: Framing,
    /// Whether the program waits to be told that it may send the body.
    pub(crate) expects_continue: bool,
    persistence: Persistence,
}

/// Whether more requests may follow on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    Persistent,
    Last,
}

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum HeadError {
    /// The connection has ended.
    Gone,
    /// It can be read in more than one way, or in none.
    Bad(&'static str),
    /// It is too large.
    TooLarge,
}

impl Head {
    /// Whether more requests may follow on the connection.
    pub(crate) fn is_persistent(&self) -> bool {
        self.persistence == Persistence::Persistent
    }
}

/// Reads a head; what follows it stays in the wire.
pub(crate) async fn read(wire: &mut Wire) -> Result<Head, HeadError> {
    let mut searched = 0_usize;
    loop {
        let from = searched.saturating_sub(3);
        let end = wire.ahead.get(from..).and_then(|it| find(it, b"\r\n\r\n"));
        if let Some(end) = end {
            let head = wire.ahead.split_to(from + end + 4);
            return parse(&head);
        }
        if wire.ahead.len() >= LONGEST {
            return Err(HeadError::TooLarge);
        }
        searched = wire.ahead.len();
        wire.look_further(LONGEST).await.map_err(|_| HeadError::Gone)?;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|it| it == wanted)
}

/// Reads a head that is all there.
pub(crate) fn parse(bytes: &[u8]) -> Result<Head, HeadError> {
    use HeadError::Bad;

    // The parser takes a lone newline for the end of a line, and others do not.
    let lines = bytes.strip_suffix(b"\r\n").unwrap_or(bytes);
    let odd = |pair: &[u8]| (pair.last() == Some(&b'\n')) != (pair.first() == Some(&b'\r'));
    if lines.first() == Some(&b'\n') || lines.windows(2).any(odd) {
        return Err(Bad("a line does not end with CR and LF"));
    }
    // It skips empty lines, too.
    if !bytes.first().is_some_and(u8::is_ascii_alphabetic) {
        return Err(Bad("it does not begin with a method"));
    }
    let mut space = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut space);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Ok(_) | Err(_) => return Err(Bad("it is not HTTP/1.1")),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Bad("it is not HTTP/1.1"));
    };
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| Bad("there is no such method"))?;
    if target.bytes().any(|it| !it.is_ascii_graphic()) {
        return Err(Bad("the target has characters that no target has"));
    }
    let map = collect(request.headers)?;
    assemble(method, target.to_owned(), version, map)
}

fn collect(raw: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut map = HeaderMap::with_capacity(raw.len());
    for header in raw {
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| HeadError::Bad("a header has no name"))?;
        let value = HeaderValue::from_bytes(header.value)
            .map_err(|_| HeadError::Bad("a header has characters that no header has"))?;
        map.append(name, value);
    }
    Ok(map)
}

fn assemble(
    method: Method,
    target: String,
    version: u8,
    mut map: HeaderMap,
) -> Result<Head, HeadError> {
    headers::check(&map).map_err(HeadError::Bad)?;
    let framing = framing(&map, version)?;
    let host = match headers::only(&map, &header::HOST).map_err(HeadError::Bad)? {
        Some(host) => {
            Some(host.to_str().map_err(|_| HeadError::Bad("Host is not a name"))?.to_owned())
        }
        None if version == 0 => None,
        None => return Err(HeadError::Bad("there is no Host")),
    };
    let expects_continue = version == 1
        && map
            .get(header::EXPECT)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let persistence = if version == 1 && !headers::closes(&map) {
        Persistence::Persistent
    } else {
        Persistence::Last
    };
    let upgrade = headers::upgrade(&map, &method);
    headers::strip(&mut map);
    if upgrade == Upgrade::WebSocket {
        map.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        map.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    Ok(Head { method, target, host, headers: map, framing, expects_continue, persistence })
}

/// Where the body ends, if there is exactly one way to tell.
fn framing(map: &HeaderMap, version: u8) -> Result<Framing, HeadError> {
    use HeadError::Bad;

    let length = headers::only(map, &header::CONTENT_LENGTH).map_err(Bad)?;
    let coding = headers::only(map, &header::TRANSFER_ENCODING).map_err(Bad)?;
    match (length, coding) {
        (Some(_), Some(_)) => {
            Err(Bad("Content-Length and Transfer-Encoding exclude each other"))
        }
        (None, None) => Ok(Framing::Empty),
        (None, Some(coding)) => {
            if version == 1 && coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
                Ok(Framing::Chunked)
            } else {
                Err(Bad("the only Transfer-Encoding is `chunked`"))
            }
        }
        (Some(length), None) => {
            let digits = length.as_bytes();
            let number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let text = length.to_str().ok().filter(|_| number);
            let length = text.and_then(|it| it.parse().ok());
            length.map(Framing::Length).ok_or(Bad("Content-Length is not a number"))
        }
    }
}
