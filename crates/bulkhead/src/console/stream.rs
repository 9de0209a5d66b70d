//! One of the three streams that Bulkhead was started with, without a thread.
//!
//! Others share these descriptions (the shell, the rest of a pipeline), so their flags are left
//! alone: a pipe or terminal is opened a second time for us, a socket is asked not to wait, and
//! where neither can be, we look whether there is something to do before we do it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, Mode, OFlags},
    io::Errno,
    net::{RecvFlags, SendFlags},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

/// A pipe with room for anything has room for so much.
const PIPE_BUF: usize = 4096;

/// Our end of a stream.
pub(crate) struct Passage {
    way: Way,
    lost: Lost,
}

/// Whether something that was to be written was not taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    any: Arc<AtomicBool>,
    refused: Arc<OnceLock<Errno>>,
}

impl Lost {
    /// Whether something was lost.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Why a file did not take it. A reader that went away is no trouble, and not told here.
    pub(crate) fn refused(&self) -> Option<Errno> {
        self.refused.get().copied()
    }
}

enum Way {
    /// A file or a simple device: never makes us wait for somebody.
    Direct(OwnedFd),
    /// Opened for us alone, and never waits.
    Own(AsyncFd<OwnedFd>),
    /// A socket, which can be told not to wait.
    Socket(AsyncFd<OwnedFd>),
    /// Shared, and would wait.
    Shared(AsyncFd<OwnedFd>),
}

impl Passage {
    /// Our end of `stream` to read from. Needs a runtime around it.
    pub(crate) fn reading(stream: impl AsFd) -> io::Result<Self> {
        Self::open(stream.as_fd().try_clone_to_owned()?, OFlags::RDONLY)
    }

    /// Our end of `stream` to write to. Needs a runtime around it.
    pub(crate) fn writing(stream: impl AsFd) -> io::Result<Self> {
        Self::open(stream.as_fd().try_clone_to_owned()?, OFlags::WRONLY)
    }

    /// Tells, later, whether the reader went away before everything was written.
    pub(crate) fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn open(fd: OwnedFd, mode: OFlags) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        let waits = kind == FileType::Fifo || rustix::termios::isatty(&fd);
        let way = if kind == FileType::Socket {
            Way::Socket(watched(fd)?)
        } else if waits {
            match reopen(&fd, mode) {
                Ok(own) => Way::Own(watched(own)?),
                // Another user's pipe, or no `/proc`.
                Err(_) => Way::Shared(watched(fd)?),
            }
        } else {
            Way::Direct(fd)
        };
        Ok(Self { way, lost: Lost::default() })
    }
}

#[expect(deprecated, reason = "its successor is unsafe; an `OwnedFd` is all that it asks for")]
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

fn reopen(fd: &OwnedFd, mode: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = mode | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Whether `stream` is `/dev/null`: there is nothing to pass on then.
pub(super) fn is_null(stream: impl AsFd) -> bool {
    let found = rustix::fs::fstat(stream).ok();
    let device =
        found.filter(|it| FileType::from_raw_mode(it.st_mode) == FileType::CharacterDevice);
    let device =
        device.map(|it| (rustix::fs::major(it.st_rdev), rustix::fs::minor(it.st_rdev)));
    device == Some((1, 3))
}

/// Fails with `WouldBlock` unless something can be done at once.
fn at_once(fd: &OwnedFd, what: PollFlags) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(fd, what)];
    if poll(&mut fds, Some(&now))? == 0 { Err(Errno::AGAIN.into()) } else { Ok(()) }
}

impl AsyncRead for Passage {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = |fd: &OwnedFd, into: &mut ReadBuf<'_>| -> io::Result<()> {
            let count = rustix::io::read(fd, into.initialize_unfilled())?;
            into.advance(count);
            Ok(())
        };
        let (ready_fd, way) = match &self.way {
            Way::Direct(fd) => return Poll::Ready(read(fd, into)),
            Way::Own(fd) | Way::Socket(fd) | Way::Shared(fd) => (fd, &self.way),
        };
        loop {
            let mut guard = ready!(ready_fd.poll_read_ready(context))?;
            let done = guard.try_io(|fd| match way {
                Way::Socket(_) => {
                    let unfilled = into.initialize_unfilled();
                    let (count, _) = rustix::net::recv(fd, unfilled, RecvFlags::DONTWAIT)?;
                    into.advance(count);
                    Ok(())
                }
                Way::Shared(_) => {
                    at_once(fd.get_ref(), PollFlags::IN)?;
                    read(fd.get_ref(), into)
                }
                Way::Direct(_) | Way::Own(_) => read(fd.get_ref(), into),
            });
            match done {
                Ok(done) => return Poll::Ready(done),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Passage {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (ready_fd, way) = match &self.way {
            Way::Direct(fd) => return Poll::Ready(self.told(rustix::io::write(fd, bytes))),
            Way::Own(fd) | Way::Socket(fd) | Way::Shared(fd) => (fd, &self.way),
        };
        loop {
            let mut guard = ready!(ready_fd.poll_write_ready(context))?;
            let done = guard.try_io(|fd| {
                let written = match way {
                    Way::Socket(_) => {
                        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                        rustix::net::send(fd, bytes, flags)
                    }
                    Way::Shared(_) => {
                        at_once(fd.get_ref(), PollFlags::OUT)?;
                        let few = bytes.get(..PIPE_BUF).unwrap_or(bytes);
                        rustix::io::write(fd, few)
                    }
                    Way::Direct(_) | Way::Own(_) => rustix::io::write(fd, bytes),
                };
                Ok(written?)
            });
            match done {
                Ok(Ok(count)) => return Poll::Ready(Ok(count)),
                Ok(Err(error)) => {
                    self.lost.any.store(true, Ordering::Relaxed);
                    return Poll::Ready(Err(error));
                }
                Err(_would_block) => {}
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

impl Passage {
    fn told(&self, written: Result<usize, Errno>) -> io::Result<usize> {
        if let Err(errno) = written {
            self.lost.any.store(true, Ordering::Relaxed);
            self.lost.refused.get_or_init(|| errno);
        }
        Ok(written?)
    }
}
