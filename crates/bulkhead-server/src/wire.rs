//! Connections: taken, served, and cut where that is what a client understands.

use std::{
    convert::Infallible,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{body::Body, extract::Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::{AbortHandle, JoinSet},
};

use crate::{house::House, route::Doors};

/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(30);

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
        let socket = self.0.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = socket {
            let none = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&socket, none).unwrap_or_default();
        }
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Where clients come in.
#[derive(Debug)]
pub enum Door {
    /// A port.
    Tcp(TcpListener),
    /// A socket in the filesystem.
    Unix(UnixListener),
}

/// Serves `house` at `door` until `done`. Requests that are being answered then may finish.
pub async fn serve(
    house: Arc<House>,
    door: Door,
    done: impl Future<Output = ()>,
) -> io::Result<()> {
    let doors = Arc::new(Doors::of(house));
    let mut connections = JoinSet::new();
    tokio::pin!(done);
    loop {
        tokio::select! {
            accepted = accept(&door) => match accepted {
                Ok((socket, stream)) => take(&doors, socket, stream, &mut connections),
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
    drop(door);
    // Whoever streams on stays connected for a moment only; rooms live on without us.
    let rest = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(2), rest).await.unwrap_or_default();
    Ok(())
}

/// Bytes both ways, whatever carries them.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

async fn accept(door: &Door) -> io::Result<(OwnedFd, Box<dyn Duplex>)> {
    match door {
        Door::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((stream.as_fd().try_clone_to_owned()?, Box::new(stream)))
        }
        Door::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok((stream.as_fd().try_clone_to_owned()?, Box::new(stream)))
        }
    }
}

/// Serves one connection, in a task of its own.
fn take(
    doors: &Arc<Doors>,
    socket: OwnedFd,
    stream: Box<dyn Duplex>,
    connections: &mut JoinSet<()>,
) {
    let inner = Inner { socket: Mutex::new(Some(socket)), task: Mutex::default() };
    let wire = Wire(Arc::new(inner));
    let (doors, on) = (Arc::clone(doors), wire.clone());
    let task = connections.spawn(async move {
        let closing = on.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let (doors, wire) = (Arc::clone(&doors), on.clone());
            async move {
                let mut request: Request = request.map(Body::new);
                request.extensions_mut().insert(wire);
                Ok::<_, Infallible>(doors.answer(request).await)
            }
        });
        let mut http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        http.http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
        let ended = http.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
        closing.0.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
    });
    *wire.0.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
}
