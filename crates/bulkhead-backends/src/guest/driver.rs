//! The task in which a link lives: it hears the guest whatever anybody else is busy with, and sends
//! what could not be sent at once.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bulkhead_guest::{
    protocol::MOST_TO_HOST,
    wire::{Arrived, Inbox},
};
use tokio::{
    io::{AsyncRead, ReadBuf, unix::AsyncFd},
    time::{Sleep, sleep},
};

use super::{dispatch::dispatch, outbox::Writer, state::State};

/// As much as is read at once from a stream that is no socket.
const CHUNK: usize = 16 << 10;

/// How long a guest that hears nothing any more may take for its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What arrives, and from where.
pub(super) enum Reader {
    Socket(Arc<AsyncFd<OwnedFd>>),
    Stream(Box<dyn AsyncRead + Send + Unpin>),
}

/// Ends the link even if the task is stopped.
struct Alive(Arc<State>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.end(Ok(()));
    }
}

/// A guest that does not hear us: it is about to end, and what it said last may still be on the way.
struct Deaf {
    error: io::Error,
    patience: Pin<Box<Sleep>>,
}

/// Drives the link until the guest is gone or breaks a rule.
pub(super) async fn drive(state: Arc<State>, mut reader: Reader, mut writer: Writer) {
    let alive = Alive(Arc::clone(&state));
    let mut inbox = Inbox::new(MOST_TO_HOST);
    let mut deaf: Option<Deaf> = None;
    let result = poll_fn(|context| {
        loop {
            while let Poll::Ready(arrived) = reader.poll_fill(&mut inbox, context) {
                match arrived {
                    Ok(Arrived::Some) => dispatch(&state, &mut inbox)?,
                    Ok(Arrived::End) => return Poll::Ready(Ok(())),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if let Some(mut it) = deaf.take() {
                if it.patience.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(it.error));
                }
                deaf = Some(it);
                return Poll::Pending;
            }
            match state.poll_flush(&mut writer, context) {
                Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    deaf = Some(Deaf { error, patience: Box::pin(sleep(LAST_WORDS)) });
                }
            }
        }
    })
    .await;
    state.end(result);
    drop(alive);
}

impl Reader {
    fn poll_fill(
        &mut self,
        inbox: &mut Inbox,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Arrived>> {
        match self {
            Self::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_read_ready(context))?;
                if let Ok(arrived) = ready.try_io(|it| inbox.fill(it.get_ref())) {
                    return Poll::Ready(arrived);
                }
            },
            Self::Stream(stream) => {
                let mut chunk = [MaybeUninit::uninit(); CHUNK];
                let mut buffer = ReadBuf::uninit(&mut chunk);
                ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
                if buffer.filled().is_empty() {
                    return Poll::Ready(Ok(Arrived::End));
                }
                inbox.push(buffer.filled());
                Poll::Ready(Ok(Arrived::Some))
            }
        }
    }
}
