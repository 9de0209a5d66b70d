//! What is on its way to the guest.
//!
//! Whoever has something to say puts it here and goes on. A socket is given it at once if it takes
//! it; for the rest, and for other streams, the driver is woken. It stays small: bytes of channels
//! are put here only as far as the guest gave credit for them.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bulkhead_guest::wire::send;
use tokio::io::{AsyncWrite, unix::AsyncFd};

use crate::quiet::Outward;

/// Frames that wait, the oldest first.
pub(super) struct Outbox {
    queue: VecDeque<Queued>,
    /// If the stream is one.
    socket: Option<Arc<AsyncFd<OwnedFd>>>,
    driver: Option<Waker>,
}

struct Queued {
    frame: Vec<u8>,
    sent: usize,
    with: Vec<OwnedFd>,
}

/// Where frames go.
pub(super) enum Writer {
    Socket(Outward),
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
}

impl Outbox {
    pub(super) fn new(socket: Option<Arc<AsyncFd<OwnedFd>>>) -> Self {
        Self { queue: VecDeque::new(), socket, driver: None }
    }

    /// Sends `frame` with descriptors, now or when there is room.
    pub(super) fn push(&mut self, frame: Vec<u8>, with: Vec<OwnedFd>) {
        let first = self.queue.is_empty();
        let mut queued = Queued { frame, sent: 0, with };
        if first && let Some(socket) = &self.socket {
            // What cannot be sent now is tried again by the driver, who finds out what is wrong.
            while let Ok(true) = queued.advance(socket.get_ref()) {}
        }
        if queued.sent < queued.frame.len() {
            self.queue.push_back(queued);
            if let Some(driver) = self.driver.take() {
                driver.wake();
            }
        }
    }

    /// Sends what waits, and remembers whom to wake for more.
    pub(super) fn poll_flush(
        &mut self,
        writer: &mut Writer,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.driver.as_ref().is_some_and(|it| it.will_wake(context.waker())) {
            self.driver = Some(context.waker().clone());
        }
        while let Some(queued) = self.queue.front_mut() {
            ready!(queued.poll_advance(writer, context))?;
            if queued.frame.len() <= queued.sent {
                self.queue.pop_front();
            }
        }
        match writer {
            Writer::Socket(socket) => {
                socket.rest();
                Poll::Ready(Ok(()))
            }
            Writer::Stream(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// Forgets what waits, for nobody will hear it.
    pub(super) fn close(&mut self) {
        self.queue.clear();
        self.socket = None;
    }
}

impl Queued {
    fn rest(&self) -> &[u8] {
        self.frame.get(self.sent..).unwrap_or_default()
    }

    /// Sends some more; says whether there is anything left.
    fn advance(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        let with: Vec<_> = self.with.iter().map(OwnedFd::as_fd).collect();
        self.sent += send(socket, self.rest(), &with)?;
        self.with.clear();
        Ok(self.sent < self.frame.len())
    }

    fn poll_advance(
        &mut self,
        writer: &mut Writer,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match writer {
            Writer::Socket(socket) => {
                socket.poll_write(context, |it| self.advance(it)).map_ok(drop)
            }
            Writer::Stream(stream) => {
                match ready!(Pin::new(stream).poll_write(context, self.rest()))? {
                    0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => {
                        self.sent += count;
                        Poll::Ready(Ok(()))
                    }
                }
            }
        }
    }
}
