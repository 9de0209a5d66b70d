//! A stream of bytes from inside, however it came.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Anything that bytes go in and out of.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream, and what was already read from it.
pub(crate) struct Wire {
    pub(crate) end: End,
    /// Read ahead to see what this is; whoever reads next gets it first.
    pub(crate) ahead: BytesMut,
}

/// The two kinds of stream.
pub(crate) enum End {
    /// A socket, which the kernel can move bytes between.
    Tcp(TcpStream),
    /// Anything else: a channel from a container, a TLS session.
    Other(Box<dyn Duplex>),
}

impl Wire {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        // Small messages of one side must not wait for acknowledgements of the other.
        drop(stream.set_nodelay(true));
        Self { end: End::Tcp(stream), ahead: BytesMut::new() }
    }

    pub(crate) fn other(stream: impl Duplex + 'static) -> Self {
        Self { end: End::Other(Box::new(stream)), ahead: BytesMut::new() }
    }

    /// Reads more of it ahead, up to `most` bytes in all.
    pub(crate) async fn look_further(&mut self, most: usize) -> io::Result<usize> {
        let room = most.saturating_sub(self.ahead.len()).min(16 << 10);
        if room == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.ahead.reserve(room);
        let Self { end, ahead } = self;
        let read = match end {
            End::Tcp(stream) => stream.take(room as u64).read_buf(ahead).await?,
            End::Other(stream) => stream.take(room as u64).read_buf(ahead).await?,
        };
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
    }

    /// Ends it in a way that the other side notices at once.
    pub(crate) fn reset(self) {
        if let End::Tcp(stream) = &self.end {
            // Without this the peer would see an orderly end, as if somebody had answered.
            if let Err(error) = sockopt::set_socket_linger(stream, Some(Duration::ZERO)) {
                tracing::debug!(%error, "a connection ends in an orderly way");
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { end, ahead } = &mut *self;
        if ahead.has_remaining() {
            let taken = ahead.split_to(ahead.len().min(buffer.remaining()));
            buffer.put_slice(&taken);
            return Poll::Ready(Ok(()));
        }
        match end {
            End::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            End::Other(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.end {
            End::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            End::Other(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.end {
            End::Tcp(stream) => Pin::new(stream).poll_flush(context),
            End::Other(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.end {
            End::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            End::Other(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
