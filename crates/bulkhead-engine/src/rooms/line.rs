//! A connection between a shim and a client.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bulkhead_backends::quiet::{Outward, watch};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
        accept_with, bind, connect, listen, recv, send, shutdown, socket_with,
        sockopt::socket_peercred,
    },
};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, Interest, ReadBuf, unix::AsyncFd};

/// How much is read at once; most of what is said is shorter.
const AT_ONCE: usize = 4 << 10;
/// How many may have come who are not served yet.
const WAITING: i32 = 1024;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Where clients come.
pub(super) struct Listener(AsyncFd<OwnedFd>);

/// What the other side says.
pub(super) type Heard = BufReader<Arriving>;

/// A connection, watched for what arrives.
pub(super) struct Arriving(Arc<AsyncFd<OwnedFd>>);

/// The same one, for what is said. The other side hears of its end.
pub(super) struct Mouth(Outward);

impl Listener {
    /// At `path`, of which nothing is left. It is for our user.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        let at = Address::of(path)?;
        bind(&socket, &at.address)?;
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
        listen(&socket, WAITING)?;
        Ok(Self(watch(socket, Interest::READABLE)?))
    }

    /// Whoever comes next: the same user, or root. Others are sent away.
    pub(super) async fn accept(&self) -> io::Result<(Heard, Mouth)> {
        loop {
            let mut ready = self.0.readable().await?;
            let accepted = ready.try_io(|it| Ok(accept_with(it.get_ref(), FLAGS)?));
            match accepted {
                Ok(Ok(socket)) if is_ours(&socket) => return halves(socket),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
    }
}

/// Connects to whoever listens at `path`.
pub(super) fn reach(path: &Path) -> io::Result<(Heard, Mouth)> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(&socket, &Address::of(path)?.address)?;
    halves(socket)
}

fn halves(socket: OwnedFd) -> io::Result<(Heard, Mouth)> {
    let socket = Arc::new(watch(socket, Interest::READABLE)?);
    let mouth = Mouth(Outward::new(Arc::clone(&socket)));
    Ok((BufReader::with_capacity(AT_ONCE, Arriving(socket)), mouth))
}

/// Whether the same user, or root, is at the other end.
fn is_ours(socket: &OwnedFd) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(socket).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// A path of a socket, which may be longer than an address can be: it is reached through its
/// directory.
struct Address {
    address: SocketAddrUnix,
    _dir: File,
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = File::open(dir)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(Self { address: SocketAddrUnix::new(short)?, _dir: dir })
    }
}

impl AsyncRead for Arriving {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let space = into.initialize_unfilled();
            match recv(ready.get_inner(), &mut *space, RecvFlags::DONTWAIT) {
                Ok((count, _)) => {
                    // There was no more, and whatever comes is told.
                    if 0 < count && count < space.len() {
                        ready.clear_ready();
                    }
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsyncWrite for Mouth {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let say = |it: &OwnedFd| Ok(rustix::io::retry_on_intr(|| send(it, bytes, flags))?);
        let said = ready!(self.0.poll_write(context, say))?;
        if said == bytes.len() {
            self.0.rest();
        }
        Poll::Ready(Ok(said))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(self.0.socket().get_ref(), Shutdown::Write)?))
    }
}

impl Drop for Mouth {
    fn drop(&mut self) {
        // Where nobody listens any more, either, the connection is just closed.
        if 1 < Arc::strong_count(self.0.socket()) {
            // Whoever has gone already need not hear of it.
            shutdown(self.0.socket().get_ref(), Shutdown::Write).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use rustix::{event::epoll::EventFlags, net::socketpair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> ((Heard, Mouth), (Heard, Mouth)) {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None).unwrap();
        (halves(one).unwrap(), halves(other).unwrap())
    }

    /// How many descriptors of this process wake somebody who waits for room in `line`.
    fn watched_for_room(line: &Mouth) -> usize {
        let ours = rustix::fs::fstat(line.0.socket().get_ref()).unwrap().st_ino;
        let is_ours = |it: &str| {
            let target = fs::read_link(format!("/proc/self/fd/{it}")).unwrap_or_default();
            target.to_string_lossy() == format!("socket:[{ours}]")
        };
        // tfd:        7 events: 80002001 …
        let for_room = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let (Some(watched), Some("events:"), Some(events)) =
                (words.next(), words.next(), words.next())
            else {
                return false;
            };
            let events = u32::from_str_radix(events, 16).unwrap();
            events & EventFlags::OUT.bits() != 0 && is_ours(watched)
        };
        let all = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let texts = all.filter_map(|it| fs::read_to_string(it.path()).ok());
        texts.map(|it| it.lines().filter(|it| for_room(it)).count()).sum()
    }

    #[tokio::test]
    async fn only_whoever_waits_for_room_is_woken_for_it() {
        let ((_ear, mut says), (mut heard, _mouth)) = pair();
        says.write_all(b"short").await.unwrap();
        assert_eq!(watched_for_room(&says), 0);

        // As much as nobody takes at once.
        let (long, mut read) = (vec![7; 4 << 20], Vec::new());
        let said = says.write_all(&long);
        tokio::pin!(said);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut said).await;
        assert!(early.is_err(), "nobody has read it");
        let hear = async {
            let mut start = [0; 5];
            heard.read_exact(&mut start).await.unwrap();
            (&mut heard).take(4 << 20).read_to_end(&mut read).await.unwrap();
        };
        let (said, ()) = tokio::join!(&mut said, hear);
        said.unwrap();
        assert_eq!(read, long);
        assert_eq!(watched_for_room(&says), 0);
    }

    #[tokio::test]
    async fn the_end_of_what_is_said_is_heard_and_answered() {
        let ((mut ear, says), (mut heard, mut answers)) = pair();
        drop(says);
        assert_eq!(heard.read(&mut [0; 8]).await.unwrap(), 0);
        answers.write_all(b"well").await.unwrap();
        drop((heard, answers));
        let mut answer = String::new();
        ear.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "well");
    }
}
