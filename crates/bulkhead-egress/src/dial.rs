//! Connections to the world.
//!
//! Invariant: what is dialled is an address that was looked at under the permit, and the one
//! lookup of the name is the one that was looked at.

mod upstream;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket},
    pin::Pin,
};

use bulkhead_spec::Host;
use http::HeaderValue;
use tokio::{net::TcpStream, time::timeout};

use crate::{gate::Permit, room::Room, wire::Wire};

/// A connection that is on its way.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// Somebody who makes connections to addresses.
pub trait Connector: Send + Sync {
    /// Connects to `address`, which has been looked at.
    fn connect(&self, address: SocketAddr) -> Connecting<'_>;

    /// Whether `address` is one of this machine's own.
    fn is_own(&self, address: IpAddr) -> bool;
}

/// Connects as the host does.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Connector for Direct {
    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        Box::pin(TcpStream::connect(address))
    }

    /// The kernel would talk to an address of its own from that same address. Nothing is sent.
    fn is_own(&self, address: IpAddr) -> bool {
        let any = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let Ok(socket) = UdpSocket::bind((any, 0)) else { return false };
        let from = socket.connect((address, 9)).and_then(|()| socket.local_addr());
        from.is_ok_and(|from| from.ip() == address)
    }
}

/// Why a permitted host was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFailed {
    /// Its name has no address that we could learn.
    #[error("its name could not be resolved")]
    Unresolved(#[source] io::Error),
    /// Its name leads where nobody may go.
    #[error("its name leads to an address that is private, the host's own or no destination")]
    Forbidden,
    /// Nobody there answered.
    #[error("it could not be reached")]
    Unreached(#[source] io::Error),
}

/// What a connection for plain requests leads to.
pub(crate) enum Route {
    /// The host itself.
    Host,
    /// The proxy before it, which wants whole addresses, and perhaps to know who asks.
    Proxy(Option<HeaderValue>),
}

/// Connects to what was permitted, for plain requests: a proxy is told of each, since most of
/// them open tunnels to port 443 only.
pub(crate) async fn dial_plain(
    room: &Room,
    permit: &Permit,
) -> Result<(Wire, Route), DialFailed> {
    let host = &permit.destination().host;
    let inside = is_the_host(host) || permit.neighbour().is_some();
    let proxy = room.upstream.proxy_for(host).filter(|_| !inside);
    match proxy {
        Some(proxy) => {
            let login = upstream::login(proxy);
            let wire = upstream::connect(room, proxy).await?;
            Ok((wire, Route::Proxy(login)))
        }
        None => Ok((dial(room, permit).await?, Route::Host)),
    }
}

/// Connects to what was permitted.
pub(crate) async fn dial(room: &Room, permit: &Permit) -> Result<Wire, DialFailed> {
    let to = permit.destination();
    if let Some(address) = permit.neighbour() {
        return visit(room, SocketAddrV4::new(address, to.port)).await;
    }
    let proxy = room.upstream.proxy_for(&to.host).filter(|_| !is_the_host(&to.host));
    if let Some(proxy) = proxy {
        return upstream::dial(room, proxy, to).await;
    }
    let addresses = vetted(room, permit).await?;
    let dialled = async {
        let mut last = io::Error::from(io::ErrorKind::HostUnreachable);
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        for address in addresses {
            // Each has its share of the time, so that one that swallows everything is not all.
            let share = room.timings.dial / count;
            match timeout(share, room.connector.connect(SocketAddr::new(address, to.port)))
                .await
            {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    };
    dialled.await.map(Wire::tcp).map_err(DialFailed::Unreached)
}

/// Connects to a neighbour.
async fn visit(room: &Room, address: SocketAddrV4) -> Result<Wire, DialFailed> {
    let gone = || DialFailed::Unreached(io::ErrorKind::NotConnected.into());
    let known = room.neighbours.as_ref().ok_or_else(gone)?;
    let reached = timeout(room.timings.dial, known.reach(address)).await;
    let reached = reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    reached.map(Wire::other).map_err(DialFailed::Unreached)
}

/// Every address of a permitted host, if there is nothing wrong with any of them.
async fn vetted(room: &Room, permit: &Permit) -> Result<Vec<IpAddr>, DialFailed> {
    let to = permit.destination();
    let addresses = match &to.host {
        // By name only, and by a rule that spells it out: then loopback is what was meant.
        Host::Name(name) if name.is_the_host() => {
            let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let ours = |it: &IpAddr| is_ours(room, *it, to.port);
            if addresses.iter().any(ours) {
                return Err(DialFailed::Forbidden);
            }
            return Ok(addresses.to_vec());
        }
        Host::Name(name) => {
            let resolved = timeout(room.timings.resolve, room.resolver.resolve(name)).await;
            resolved
                .map_err(|_| DialFailed::Unresolved(io::ErrorKind::TimedOut.into()))?
                .map_err(DialFailed::Unresolved)?
        }
        Host::Address(address) => vec![*address],
    };
    let fine = |it: &IpAddr| {
        permit.rules().may_dial(*it, to.port)
            && !is_ours(room, *it, to.port)
            && !room.connector.is_own(it.to_canonical())
    };
    if addresses.is_empty() {
        return Err(DialFailed::Unresolved(io::ErrorKind::NotFound.into()));
    }
    if !addresses.iter().all(fine) {
        return Err(DialFailed::Forbidden);
    }
    Ok(addresses.into_iter().map(|it| it.to_canonical()).collect())
}

fn is_the_host(host: &Host) -> bool {
    host.name().is_some_and(bulkhead_spec::HostName::is_the_host)
}

/// Whether a socket of Bulkhead itself is there.
fn is_ours(room: &Room, address: IpAddr, port: u16) -> bool {
    let there = |own: &SocketAddr| {
        own.port() == port && (own.ip() == address || own.ip().is_unspecified())
    };
    room.own.iter().any(there)
}
