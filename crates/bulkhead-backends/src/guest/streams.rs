//! The streams of a program: pipes, or a terminal of the sandbox's own.
//!
//! Never the caller's own descriptors: a sandbox that is handed a file can open it anew through
//! `/proc/self/fd`, for writing too, and one that is handed a terminal can type into it.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bulkhead_spec::Stdin;
use rustix::{
    fs::{Mode, OFlags},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net::unix::pipe::{Receiver, Sender},
};

use crate::Streams;
use crate::quiet::watch;

/// Pipes for a program: our ends, and its three.
pub(super) fn pipes(stdin: Stdin) -> io::Result<(Streams, [OwnedFd; 3])> {
    let (input, writer) = match stdin {
        Stdin::Empty => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
        }
        Stdin::Piped => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            (theirs, Some(Sender::from_owned_fd(ours)?))
        }
    };
    let (stdout, output) = reader()?;
    let (stderr, complaints) = reader()?;
    let streams = Streams {
        stdin: writer.map(|it| Box::new(it) as _),
        stdout: Box::new(stdout),
        stderr: Some(Box::new(stderr)),
    };
    Ok((streams, [input, output, complaints]))
}

fn reader() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((Receiver::from_owned_fd(ours)?, theirs))
}

/// Streams over the host's end of a terminal, and that end for its size.
pub(super) fn terminal(end: Option<OwnedFd>) -> io::Result<(Streams, Arc<AsyncFd<OwnedFd>>)> {
    let end = end.ok_or_else(|| io::Error::other("the terminal did not arrive"))?;
    rustix::io::ioctl_fionbio(&end, true)?;
    let end = Arc::new(watch(end, Interest::READABLE | Interest::WRITABLE)?);
    let streams = Streams {
        stdin: Some(Box::new(Tty(Arc::clone(&end)))),
        stdout: Box::new(Tty(Arc::clone(&end))),
        stderr: None,
    };
    Ok((streams, end))
}

/// A terminal, read and written without blocking.
struct Tty(Arc<AsyncFd<OwnedFd>>);

impl AsyncRead for Tty {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let read = ready
                .try_io(|end| Ok(rustix::io::read(end.get_ref(), into.initialize_unfilled())?));
            if let Ok(count) = read {
                into.advance(count?);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Tty {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            let wrote = ready.try_io(|end| Ok(rustix::io::write(end.get_ref(), bytes)?));
            if let Ok(count) = wrote {
                return Poll::Ready(count);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
