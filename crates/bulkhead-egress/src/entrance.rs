//! The sockets through which a sandbox talks to its gateway.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    sync::Arc,
    time::Duration,
};

use bulkhead_policy::{PROXY_PORT, SOCKS_PORT};
use tokio::{net, task::JoinSet};

use crate::{dns, http, http::Face, room::Room, socks5, transparent, wire::Wire};

/// Sockets that were made where the sandbox can reach them and nobody else can.
///
/// They are the sandbox's identity: whoever comes through them is judged by its rules.
#[derive(Debug, Default)]
pub struct Entrances {
    /// For programs that know an HTTP proxy.
    pub http: Vec<TcpListener>,
    /// For programs that know a SOCKS5 proxy.
    pub socks: Vec<TcpListener>,
    /// For programs that know none: their connections arrive at the address that they wanted.
    /// One on port 53 answers questions for names.
    pub transparent: Vec<TcpListener>,
    /// For questions for names.
    pub dns: Vec<UdpSocket>,
}

/// What a listener is for.
#[derive(Clone, Copy)]
enum Kind {
    Http,
    Socks,
    Transparent,
}

impl Entrances {
    /// Starts to serve every one of them, on the runtime that this is called in.
    pub(crate) fn open(self, room: &Arc<Room>) -> io::Result<JoinSet<()>> {
        let mut tasks = JoinSet::new();
        let tagged = |kind: Kind| move |listener: TcpListener| (kind, listener);
        let http = self.http.into_iter().map(tagged(Kind::Http));
        let socks = self.socks.into_iter().map(tagged(Kind::Socks));
        let transparent = self.transparent.into_iter().map(tagged(Kind::Transparent));
        for (kind, listener) in http.chain(socks).chain(transparent) {
            listener.set_nonblocking(true)?;
            let listener = net::TcpListener::from_std(listener)?;
            tasks.spawn(accept(Arc::clone(room), listener, kind));
        }
        for socket in self.dns {
            socket.set_nonblocking(true)?;
            let socket = net::UdpSocket::from_std(socket)?;
            tasks.spawn(dns::serve(Arc::clone(room), socket));
        }
        Ok(tasks)
    }
}

async fn accept(room: Arc<Room>, listener: net::TcpListener, kind: Kind) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let wanted = stream.local_addr();
                let wire = Wire::tcp(stream);
                match wanted {
                    Ok(wanted) => admit(&room, wire, kind, wanted),
                    Err(_) => wire.reset(),
                }
            }
            // Out of descriptors, most likely: others must end before there are more.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Serves a connection, if there is room for one more.
fn admit(room: &Arc<Room>, wire: Wire, kind: Kind, wanted: SocketAddr) {
    let Ok(place) = Arc::clone(&room.lobby).try_acquire_owned() else {
        return wire.reset();
    };
    let room = Arc::clone(room);
    tokio::spawn(async move {
        match kind {
            Kind::Http => http::serve(&room, wire, Face::Proxy).await,
            Kind::Socks => socks5::serve(&room, wire).await,
            Kind::Transparent => transparent::serve(&room, wire, wanted).await,
        }
        drop(place);
    });
}

/// Serves a connection that came by another way than a socket of ours: what it wanted says whether
/// it knows of us.
pub(crate) fn adopt(room: &Arc<Room>, wire: Wire, wanted: SocketAddr) {
    let kind = match (wanted.ip() == Ipv4Addr::LOCALHOST, wanted.port()) {
        (true, PROXY_PORT) => Kind::Http,
        (true, SOCKS_PORT) => Kind::Socks,
        (true | false, _) => Kind::Transparent,
    };
    admit(room, wire, kind, wanted);
}
