//! The answer of a host, on its way inside.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::{io::AsyncWriteExt, time::timeout};

use super::body::Body;
use crate::wire::Wire;

/// What was asked, as far as it shapes the answer.
pub(crate) struct To {
    /// How it was asked.
    pub(crate) method: Method,
    /// Whether the connection goes on after the answer.
    pub(crate) persistent: bool,
    /// How long each piece of the answer may take, to come and to be taken.
    pub(crate) patience: Duration,
}

/// How the end of an answer is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// There is no body.
    NoBody,
    /// By its length.
    Length(u64),
    /// By a chunk of nothing.
    Chunks,
}

/// Writes an answer whose headers are between us and the program only.
pub(crate) async fn write(wire: &mut Wire, response: Response<Body>, to: To) -> io::Result<()> {
    let (parts, mut body) = response.into_parts();
    let bodiless = to.method == Method::HEAD
        || parts.status.is_informational()
        || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let ending = match body.size_hint().exact() {
        _ if bodiless => Ending::NoBody,
        Some(length) => Ending::Length(length),
        None => Ending::Chunks,
    };
    let mut head = start(parts.status, &parts.headers, ending);
    if !to.persistent {
        head.extend_from_slice(b"connection: close\r\n");
    }
    head.extend_from_slice(b"\r\n");
    wire.write_all(&head).await?;
    if ending == Ending::NoBody {
        return wire.flush().await;
    }
    while let Some(frame) = timeout(to.patience, body.frame()).await? {
        let frame = frame.map_err(io::Error::other)?;
        if let Ok(bytes) = frame.into_data() {
            timeout(to.patience, piece(wire, bytes, ending)).await??;
        }
    }
    if ending == Ending::Chunks {
        wire.write_all(b"0\r\n\r\n").await?;
    }
    wire.flush().await
}

async fn piece(wire: &mut Wire, bytes: Bytes, ending: Ending) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if ending == Ending::Chunks {
        wire.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
        wire.write_all(&bytes).await?;
        wire.write_all(b"\r\n").await?;
    } else {
        wire.write_all(&bytes).await?;
    }
    wire.flush().await
}

/// Writes that the protocol is switched, as upstream has agreed.
pub(crate) async fn write_switch(wire: &mut Wire, headers: &HeaderMap) -> io::Result<()> {
    let mut head = start(StatusCode::SWITCHING_PROTOCOLS, headers, Ending::NoBody);
    head.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\n\r\n");
    wire.write_all(&head).await?;
    wire.flush().await
}

fn start(status: StatusCode, headers: &HeaderMap, ending: Ending) -> BytesMut {
    let mut head = BytesMut::with_capacity(1024);
    let reason = status.canonical_reason().unwrap_or("-");
    head.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in headers {
        let length = *name == header::CONTENT_LENGTH;
        if *name == header::TRANSFER_ENCODING || (length && ending != Ending::NoBody) {
            continue;
        }
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    match ending {
        Ending::NoBody => {}
        Ending::Length(length) => {
            head.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        Ending::Chunks => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    head
}
