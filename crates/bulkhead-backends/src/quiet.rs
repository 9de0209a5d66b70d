//! Descriptors that wake us for what we wait for, and for nothing else.
//!
//! A socket that is watched for room as well wakes whoever has written each time that the other side
//! reads. On a busy host that takes the processor from the very one that reads, while its caller waits.

use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches `fd`, which is ours alone and stays open until the watching ends, for `interest`.
#[expect(
    deprecated,
    reason = "its successor is unsafe because some types may close their descriptor early; an \
              OwnedFd cannot"
)]
pub fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// The end of a socket at which is written. Somebody watches the same socket for what arrives.
#[derive(Debug)]
pub struct Outward {
    socket: Arc<AsyncFd<OwnedFd>>,
    /// Tells of room in it, only while somebody waits for that.
    room: Option<AsyncFd<OwnedFd>>,
}

impl Outward {
    /// Of a socket that never blocks whoever writes.
    pub fn new(socket: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self { socket, room: None }
    }

    /// The socket itself.
    pub fn socket(&self) -> &Arc<AsyncFd<OwnedFd>> {
        &self.socket
    }

    /// Has `write` write, now or when there is room.
    pub fn poll_write<T>(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&OwnedFd) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let Some(room) = &self.room else {
                match write(self.socket.get_ref()) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let copy = self.socket.get_ref().try_clone()?;
                        self.room = Some(watch(copy, Interest::WRITABLE)?);
                        continue;
                    }
                    done => return Poll::Ready(done),
                }
            };
            let mut ready = ready!(room.poll_write_ready(context))?;
            if let Ok(done) = ready.try_io(|it| write(it.get_ref())) {
                return Poll::Ready(done);
            }
        }
    }

    /// Nobody waits for room any more.
    pub fn rest(&mut self) {
        self.room = None;
    }
}
