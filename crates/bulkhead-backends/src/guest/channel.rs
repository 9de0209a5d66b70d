//! A stream of bytes through the link.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bulkhead_guest::{
    protocol::{Flow, ToGuest},
    wire::encode_data,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{pipe::Pipe, state::State};

/// A stream of bytes in both directions between the host and something inside.
///
/// Shutting it down, or dropping its writing half, ends its direction into the sandbox; dropping
/// its reading half tells the guest to send no more.
pub struct Channel {
    reader: ChannelReader,
    writer: ChannelWriter,
}

/// The half that comes out of the sandbox.
pub struct ChannelReader(Half);

/// The half that goes into the sandbox.
pub struct ChannelWriter(Half);

#[derive(Clone)]
struct Half {
    id: u32,
    pipe: Arc<Mutex<Pipe>>,
    state: Arc<State>,
}

impl Channel {
    pub(super) fn new(id: u32, pipe: Arc<Mutex<Pipe>>, state: Arc<State>) -> Self {
        let half = Half { id, pipe, state };
        Self { reader: ChannelReader(half.clone()), writer: ChannelWriter(half) }
    }

    /// Both halves, for two tasks.
    pub fn into_split(self) -> (ChannelReader, ChannelWriter) {
        (self.reader, self.writer)
    }
}

impl ChannelReader {
    pub(super) fn new(id: u32, pipe: Arc<Mutex<Pipe>>, state: Arc<State>) -> Self {
        Self(Half { id, pipe, state })
    }
}

impl ChannelWriter {
    pub(super) fn new(id: u32, pipe: Arc<Mutex<Pipe>>, state: Arc<State>) -> Self {
        Self(Half { id, pipe, state })
    }

    fn finish(&self) {
        let channel = self.0.id;
        if self.0.pipe().speaking.finish() {
            self.0.state.say(&ToGuest::Flow(Flow::Finish { channel }));
            self.0.state.forget_if_over(channel);
        }
    }
}

impl Half {
    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChannelReader {
    fn drop(&mut self) {
        let channel = self.0.id;
        let tell = self.0.pipe().hearing.abandon();
        if tell {
            self.0.state.say(&ToGuest::Flow(Flow::Refuse { channel }));
        }
    }
}

impl Drop for ChannelWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl AsyncRead for ChannelReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let half = &self.0;
        let taken = half.pipe().hearing.poll_take(into, context.waker());
        let credit = u32::try_from(ready!(taken)).map_err(io::Error::other)?;
        if 0 < credit {
            let flow = Flow::Credit { channel: half.id, bytes: credit };
            half.state.say(&ToGuest::Flow(flow));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ChannelWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let half = &self.0;
        let mut pipe = half.pipe();
        if !pipe.speaking.is_wanted() || !pipe.speaking.is_open() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = ready!(pipe.speaking.poll_spend(bytes.len(), context.waker()));
        drop(pipe);
        if 0 < count {
            let sent = bytes.get(..count).unwrap_or_default();
            half.state.send(encode_data(half.id, sent), Vec::new());
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, into)
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}
