//! The body of a request, on its way from inside to the host.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::{io::AsyncReadExt, runtime::Handle, sync::mpsc, time::timeout};

use crate::{meter::Toll, wire::Wire};

/// What goes wrong with a body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body, whoever made it.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Empty,
    /// After so many bytes.
    Length(u64),
    /// After a chunk of nothing.
    Chunked,
}

/// The longest line between chunks.
const LINE: usize = 256;

/// The most that may follow the last chunk; none of it is passed on.
const TRAILERS: usize = 8 << 10;

/// A body without anything in it.
pub(crate) fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of these bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The end from which a body is fed.
pub(crate) struct Feed {
    to: Option<mpsc::Sender<io::Result<Bytes>>>,
    patience: Duration,
}

/// Two ends of a body: what is pumped into one comes out of the other. Each piece must come
/// within `patience`.
pub(crate) fn channel(framing: Framing, patience: Duration) -> (Feed, Body) {
    if framing == Framing::Empty {
        return (Feed { to: None, patience }, empty());
    }
    // One piece waits while another is sent: a slow host slows the program down.
    let (sender, receiver) = mpsc::channel(1);
    let left = match framing {
        Framing::Length(length) => Some(length),
        Framing::Empty | Framing::Chunked => None,
    };
    (Feed { to: Some(sender), patience }, Fed { receiver, left }.boxed_unsync())
}

struct Fed {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    left: Option<u64>,
}

impl hyper::body::Body for Fed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        self.receiver.poll_recv(context).map(|piece| match piece {
            None => None,
            Some(Err(error)) => Some(Err(error.into())),
            Some(Ok(bytes)) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                Some(Ok(Frame::data(bytes)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A body that is counted as it leaves, and breaks off where a limit is reached.
///
/// What nobody wants of it is read and thrown away, if it is little: a client that is cut off while
/// it sends reports that, and not what it was answered.
pub(crate) struct Counted {
    /// There until this is dropped.
    inner: Option<Incoming>,
    toll: Arc<Toll>,
}

/// How much is thrown away at most, and how long that may take.
const UNWANTED: usize = 4 << 20;
const FAREWELL: Duration = Duration::from_secs(5);

impl Counted {
    pub(crate) fn new(inner: Incoming, toll: Arc<Toll>) -> Self {
        Self { inner: Some(inner), toll }
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.toll.up(bytes as u64)?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let rest = self.inner.take().filter(|it| !it.is_end_stream());
        // A gateway that ends has no time for it.
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(timeout(FAREWELL, throw_away(rest)));
        }
    }
}

async fn throw_away(mut body: Incoming) {
    let mut left = UNWANTED;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(less) => left = less,
            None => return,
        }
    }
}

impl Feed {
    /// Reads the body from `wire` and feeds it on; `true` once all of it was read.
    ///
    /// `false` means that nobody wants the rest.
    pub(crate) async fn pump(
        self,
        wire: &mut Wire,
        framing: Framing,
        toll: &Toll,
    ) -> io::Result<bool> {
        let Some(sender) = self.to else { return Ok(true) };
        let to = Outlet { sender: &sender, toll, patience: self.patience };
        let read = match framing {
            Framing::Empty => Ok(true),
            Framing::Length(length) => plain(wire, length, &to).await,
            Framing::Chunked => chunked(wire, &to).await,
        };
        if let Err(error) = &read {
            // The host must not take what came so far for the whole.
            drop(sender.send(Err(error.kind().into())).await);
        }
        read
    }
}

/// Where pieces of a body go, and how long each may take.
struct Outlet<'a> {
    sender: &'a mpsc::Sender<io::Result<Bytes>>,
    toll: &'a Toll,
    patience: Duration,
}

async fn plain(wire: &mut Wire, mut left: u64, to: &Outlet<'_>) -> io::Result<bool> {
    while left > 0 {
        let mut piece =
            Vec::with_capacity(usize::try_from(left.min(64 << 10)).unwrap_or(64 << 10));
        let read =
            timeout(to.patience, wire.take(left.min(64 << 10)).read_buf(&mut piece)).await??;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= read as u64;
        to.toll
            .up(read as u64)
            .map_err(|why| io::Error::new(io::ErrorKind::QuotaExceeded, why))?;
        if to.sender.send(Ok(piece.into())).await.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn chunked(wire: &mut Wire, to: &Outlet<'_>) -> io::Result<bool> {
    loop {
        let size = chunk_size(&timeout(to.patience, line(wire)).await??)?;
        if size == 0 {
            let mut most = TRAILERS;
            loop {
                let trailer = timeout(to.patience, line(wire)).await??;
                if trailer.is_empty() {
                    return Ok(true);
                }
                most = most.checked_sub(trailer.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            }
        }
        if !plain(wire, size, to).await? {
            return Ok(false);
        }
        if !timeout(to.patience, line(wire)).await??.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a chunk has no end"));
        }
    }
}

/// The size of a chunk: hexadecimal digits, and nothing that anybody could read otherwise.
pub(crate) fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "a chunk has no size");
    if line.is_empty() || line.len() > 15 || !line.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(line).map_err(|_| bad())?;
    u64::from_str_radix(text, 16).map_err(|_| bad())
}

/// A line, which ends with CR and LF.
async fn line(wire: &mut Wire) -> io::Result<Vec<u8>> {
    loop {
        let end = wire.ahead.iter().position(|it| *it == b'\n');
        if let Some(end) = end {
            let line = wire.ahead.split_to(end + 1);
            return match line.strip_suffix(b"\r\n") {
                Some(line) if !line.contains(&b'\r') => Ok(line.to_vec()),
                Some(_) | None => {
                    Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no end"))
                }
            };
        }
        wire.look_further(LINE).await?;
    }
}
