//! Pipes that bytes pass through on their way between two sockets.
//!
//! A pipe is needed only while it holds bytes, so a few serve thousands of connections.

use std::{cell::RefCell, io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    pipe::{PipeFlags, SpliceFlags},
};
use tokio::{io::Interest, net::TcpStream};

/// How much a pipe should hold: enough to keep both sides busy, and little enough that many
/// peers that do not read hold up no more than some memory. Half of it moves a tenth less where
/// three processes share two cores; twice as much moves no more.
const ROOM: usize = 512 << 10;

/// Empty pipes that are kept for later.
const KEPT: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe with nothing in it, or with what one connection is about to pass on.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// An empty pipe. One that is dropped with bytes in it is closed, so nobody else sees them.
pub(super) fn take() -> io::Result<Pipe> {
    if let Some(spare) = SPARE.with_borrow_mut(Vec::pop) {
        return Ok(spare);
    }
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // A smaller pipe is slower and nothing else.
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(&write, ROOM) {
        tracing::debug!(%error, "a pipe stays small");
    }
    Ok(Pipe { read, write })
}

impl Pipe {
    /// Takes what a socket has; `None` if it has nothing yet, zero at its end.
    pub(super) fn fill(&self, from: &TcpStream) -> io::Result<Option<usize>> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = from.try_io(Interest::READABLE, || {
            Ok(rustix::pipe::splice(from, None, &self.write, None, ROOM, flags)?)
        });
        or_later(moved)
    }

    /// Takes what a socket has besides the `held` bytes that are here; `None` if there is nothing
    /// more to take now.
    ///
    /// Its end is found when the pipe is empty. A full pipe and an empty socket look the same from
    /// here, so nothing is concluded about the socket.
    pub(super) fn top_up(&self, from: &TcpStream, held: usize) -> io::Result<Option<usize>> {
        let Some(room) = ROOM.checked_sub(held).filter(|it| *it > 0) else { return Ok(None) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = rustix::pipe::splice(from, None, &self.write, None, room, flags);
        Ok(or_later(moved.map_err(io::Error::from))?.filter(|it| *it > 0))
    }

    /// Gives up to `left` bytes to a socket, and says how many it took; `None` if it takes none
    /// now.
    pub(super) fn drain(&self, to: &TcpStream, left: usize) -> io::Result<Option<usize>> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = to.try_io(Interest::WRITABLE, || {
            Ok(rustix::pipe::splice(&self.read, None, to, None, left, flags)?)
        });
        or_later(moved)
    }

    /// Keeps the pipe for whoever comes next. It must be empty.
    pub(super) fn give_back(self) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }
}

fn or_later(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::relay::splice;

    /// Making a pipe of this size costs as much as passing on what it holds.
    #[tokio::test]
    async fn one_pipe_serves_a_connection_that_often_has_nothing_to_say() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let pair = async || {
            let (near, far) = tokio::join!(TcpStream::connect(here), listener.accept());
            (near.unwrap(), far.unwrap().0)
        };
        let ((program, inside), (outside, host)) = (pair().await, pair().await);
        let number = |it: &Pipe| rustix::fs::fstat(&it.read).unwrap().st_ino;
        let first = take().unwrap();
        let known = number(&first);
        first.give_back();
        let talk = async {
            for _ in 0..20 {
                program.writable().await.unwrap();
                program.try_write(b"x").unwrap();
                let mut byte = [0];
                loop {
                    host.readable().await.unwrap();
                    match host.try_read(&mut byte) {
                        Ok(count) => break assert_eq!(count, 1),
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                    }
                }
            }
            drop(program);
        };
        let (carried, ()) = tokio::join!(splice(&inside, &outside, |_| Ok(())), talk);
        carried.unwrap();
        let kept: Vec<_> = SPARE.with_borrow(|spare| spare.iter().map(number).collect());
        assert_eq!(kept, [known]);
    }
}
