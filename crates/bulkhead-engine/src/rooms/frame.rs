//! Frames between a shim and its clients: a length, a kind, and either JSON or plain bytes.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest frame. An argument list can have two mebibytes.
const MOST: usize = 4 << 20;
/// The most bytes of a stream in one frame.
pub(super) const CHUNK: usize = 64 << 10;

/// What bytes in a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// What a program reads, or a file's content on its way in.
    In,
    /// What it says, or a file's content on its way out.
    Out,
    /// What it complains about.
    Err,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// A part of a stream.
    Bytes(Lane, Vec<u8>),
}

impl Lane {
    fn number(self) -> u8 {
        match self {
            Self::In => 1,
            Self::Out => 2,
            Self::Err => 3,
        }
    }
}

impl Frame {
    /// The message in it.
    pub(super) fn message<T: DeserializeOwned>(&self) -> io::Result<T> {
        match self {
            Self::Message(text) => Ok(serde_json::from_slice(text)?),
            Self::Bytes(..) => Err(io::Error::other("bytes where a message was due")),
        }
    }
}

/// The next frame; `None` when the other side is done.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [a, b, c, d, kind] = head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(io::Error::other)?;
    if MOST < length {
        return Err(io::Error::other("a frame is longer than allowed"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    match kind {
        0 => Ok(Some(Frame::Message(body))),
        1 => Ok(Some(Frame::Bytes(Lane::In, body))),
        2 => Ok(Some(Frame::Bytes(Lane::Out, body))),
        3 => Ok(Some(Frame::Bytes(Lane::Err, body))),
        other => Err(io::Error::other(format!("a frame of kind {other}"))),
    }
}

/// Says `message`.
pub(super) async fn say<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> io::Result<()> {
    put(to, 0, &serde_json::to_vec(message)?).await
}

/// Sends a part of a stream.
pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    lane: Lane,
    bytes: &[u8],
) -> io::Result<()> {
    put(to, lane.number(), bytes).await
}

async fn put(to: &mut (impl AsyncWrite + Unpin), kind: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(body.len() + 5);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.push(kind);
    frame.extend_from_slice(body);
    to.write_all(&frame).await
}
