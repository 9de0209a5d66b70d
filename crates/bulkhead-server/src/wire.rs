//! Connections: taken, served, and cut where that is what a client understands.

mod heard;

use std::{
    convert::Infallible,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::{AbortHandle, JoinSet},
};

use self::heard::Heard;
use crate::{
    api::guard::Arrival, house::House, locked::locked, route::Doors, tls::Certificates,
};

/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// The first byte of whoever speaks TLS, and of no request in plain text.
const TLS: u8 = 0x16;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: Mutex<Option<OwnedFd>>,
    task: Mutex<Option<AbortHandle>>,
}

impl Wire {
    /// Cuts the connection: the client sees a reset, as when a machine goes away.
    pub(crate) fn cut(&self) {
        let socket = locked(&self.0.socket).take();
        if let Some(socket) = socket {
            let none = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&socket, none).unwrap_or_default();
        }
        let task = locked(&self.0.task).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// How often rooms are forgotten whose time is over.
const SWEEP: Duration = Duration::from_secs(1);

/// Where clients come in.
#[derive(Debug)]
pub enum Door {
    /// A port; with certificates, whoever speaks TLS there is understood too.
    Tcp(TcpListener, Option<Certificates>),
    /// A socket in the filesystem.
    Unix(UnixListener),
}

/// Serves `house` at `door` until `done`. Requests that are being answered then may finish.
pub async fn serve(
    house: Arc<House>,
    door: Door,
    done: impl Future<Output = ()>,
) -> io::Result<()> {
    let keeper = tokio::spawn(Arc::clone(&house).keep_pool());
    let doors = Arc::new(Doors::of(Arc::clone(&house)));
    let mut connections = JoinSet::new();
    let sweeper = tokio::spawn(sweep(Arc::clone(&house)));
    tokio::pin!(done);
    loop {
        tokio::select! {
            accepted = accept(&door) => match accepted {
                Ok(accepted) => take(&doors, accepted, &mut connections),
                Err(error) => {
                    // Out of descriptors: those that are open must end first.
                    tracing::warn!(%error, "could not take a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut done => break,
        }
    }
    house.close();
    sweeper.abort();
    drop(door);
    house.drain_pool(keeper).await;
    // Whoever streams on stays connected for a moment only; rooms live on without us.
    let rest = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(2), rest).await.unwrap_or_default();
    Ok(())
}

/// Forgets rooms whose time is over, as long as the server runs.
async fn sweep(house: Arc<House>) {
    let mut often = tokio::time::interval(SWEEP);
    loop {
        often.tick().await;
        let house = Arc::clone(&house);
        // It looks at files.
        let swept = tokio::task::spawn_blocking(move || house.sweep());
        if let Err(error) = swept.await {
            tracing::warn!(%error, "rooms that have ended were not looked after");
        }
    }
}

/// Bytes both ways, whatever carries them.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection of which nothing was read yet.
enum Fresh {
    Tcp(TcpStream, Option<Certificates>),
    Unix(UnixStream),
}

impl Fresh {
    /// The bytes that are meant.
    async fn opened(self) -> io::Result<Box<dyn Duplex>> {
        let (stream, certificates) = match self {
            Self::Tcp(stream, Some(certificates)) => (stream, certificates),
            Self::Tcp(stream, None) => return Ok(Box::new(stream)),
            Self::Unix(stream) => return Ok(Box::new(stream)),
        };
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first != [TLS] {
            return Ok(Box::new(stream));
        }
        Ok(Box::new(certificates.acceptor().accept(stream).await?))
    }
}

/// Somebody who came in.
struct Accepted {
    socket: OwnedFd,
    fresh: Fresh,
    arrival: Arrival,
}

async fn accept(door: &Door) -> io::Result<Accepted> {
    match door {
        Door::Tcp(listener, certificates) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let socket = stream.as_fd().try_clone_to_owned()?;
            Ok(Accepted {
                socket,
                fresh: Fresh::Tcp(stream, certificates.clone()),
                arrival: Arrival::Network,
            })
        }
        Door::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            let socket = stream.as_fd().try_clone_to_owned()?;
            let own = rustix::process::geteuid();
            let peer = rustix::net::sockopt::socket_peercred(&socket);
            let owner = peer.is_ok_and(|it| it.uid == own || it.uid.is_root());
            let arrival = if owner { Arrival::Owner } else { Arrival::Neighbour };
            Ok(Accepted { socket, fresh: Fresh::Unix(stream), arrival })
        }
    }
}

/// Serves one connection, in a task of its own.
fn take(doors: &Arc<Doors>, accepted: Accepted, connections: &mut JoinSet<()>) {
    let Accepted { socket, fresh, arrival } = accepted;
    let inner = Inner { socket: Mutex::new(Some(socket)), task: Mutex::default() };
    let wire = Wire(Arc::new(inner));
    let (doors, on) = (Arc::clone(doors), wire.clone());
    let task = connections.spawn(async move {
        let Ok(Ok(stream)) = tokio::time::timeout(HEAD, fresh.opened()).await else {
            tracing::debug!("a connection ended before it said anything");
            return;
        };
        let closing = on.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let (doors, wire) = (Arc::clone(&doors), on.clone());
            async move {
                let (heard, mut request) = Heard::of(request);
                request.extensions_mut().insert(wire);
                request.extensions_mut().insert(arrival);
                Ok::<_, Infallible>(heard.answered(doors.answer(request).await))
            }
        });
        let mut http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        http.http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
        let ended = http.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
        locked(&closing.0.socket).take();
    });
    *locked(&wire.0.task) = Some(task);
}
