//! Files and trees on their way into a sandbox.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bulkhead_guest::protocol::{ToGuest, files::Filed};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, oneshot},
};

use super::FileError;
use crate::guest::{ChannelWriter, Link};

/// A file that is being written. Dropped without [`Writing::finish`], one that was to be replaced
/// stays as it was.
pub struct Writing {
    link: Link,
    id: u32,
    bytes: ChannelWriter,
    answer: oneshot::Receiver<Filed>,
    _turn: OwnedSemaphorePermit,
}

/// A tree that is being written; what was made before an end without [`TreeWriting::finish`] stays.
pub struct TreeWriting(pub(super) Writing);

impl Writing {
    pub(super) fn new(
        link: Link,
        id: u32,
        bytes: ChannelWriter,
        answer: oneshot::Receiver<Filed>,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        Self { link, id, bytes, answer, _turn: turn }
    }

    /// What was written is all of it; returns when it is there, or says why it is not.
    ///
    /// To be called after a write has failed, too: only this says why.
    pub async fn finish(mut self) -> Result<(), FileError> {
        self.link.state.say(&ToGuest::Commit { id: self.id });
        // If it is broken, the answer says why.
        self.bytes.shutdown().await.unwrap_or_default();
        match self.answer.await {
            Ok(Filed::Done) => Ok(()),
            Ok(other) => Err(FileError::unexpected(&other)),
            Err(_) => Err(FileError::Gone(self.link.gone("an order about files"))),
        }
    }
}

impl TreeWriting {
    /// Returns when all is there, or says why it is not.
    pub async fn finish(self) -> Result<(), FileError> {
        self.0.finish().await
    }
}

impl AsyncWrite for Writing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    /// Does nothing: only [`Writing::finish`] says that it was all.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TreeWriting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    /// Does nothing, as for a file.
    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
