//! The streams of a container's first process, as a daemon hands them over.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bollard::container::{AttachContainerResults, LogOutput};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// What the guest says and hears. What the runtime or a dying guest says on its third stream is
/// kept for a message.
pub(super) struct Attached {
    pub(super) output: Said,
    pub(super) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// What the guest says: the standard output of the container.
pub(super) struct Said {
    stream: Output,
    /// What has arrived and was not yet read.
    rest: Vec<u8>,
    read: usize,
}

impl Attached {
    pub(super) fn new(attached: AttachContainerResults) -> Self {
        let AttachContainerResults { output, input } = attached;
        Self { output: Said { stream: output, rest: Vec::new(), read: 0 }, input }
    }
}

impl AsyncRead for Said {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(rest @ [_, ..]) = self.rest.get(self.read..) {
                let count = rest.len().min(into.remaining());
                into.put_slice(rest.get(..count).unwrap_or_default());
                self.read += count;
                return Poll::Ready(Ok(()));
            }
            match ready!(self.stream.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(LogOutput::StdOut { message })) => {
                    self.rest = message.into();
                    self.read = 0;
                }
                Some(Ok(LogOutput::StdErr { message })) => {
                    let text = bulkhead_spec::escape_bytes(&message);
                    tracing::debug!(%text, "the container complains");
                }
                // A stream without frames is none of ours.
                Some(Ok(LogOutput::Console { .. } | LogOutput::StdIn { .. })) => {
                    let odd = io::Error::other("the daemon's stream has no frames");
                    return Poll::Ready(Err(odd));
                }
            }
        }
    }
}
