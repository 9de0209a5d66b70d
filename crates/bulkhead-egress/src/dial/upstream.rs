//! By way of the proxy that stands between the host and the world.
//!
//! That proxy resolves the names, so what it reaches is its business; what may be asked of it is
//! ours.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use bulkhead_spec::Host;
use http::HeaderValue;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::DialFailed;
use crate::{ProxyAddress, base64, destination::Destination, room::Room, wire::Wire};

/// The longest answer that a proxy may give before the tunnel begins.
const LONGEST: usize = 16 << 10;

/// Asks `proxy` for a tunnel.
pub(super) async fn dial(
    room: &Room,
    proxy: &ProxyAddress,
    to: &Destination,
) -> Result<Wire, DialFailed> {
    let mut wire = connect(room, proxy).await?;
    let tunnel = async {
        let login = login(proxy);
        let login = login.as_ref().and_then(|it| it.to_str().ok());
        let login =
            login.map(|it| format!("Proxy-Authorization: {it}\r\n")).unwrap_or_default();
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n");
        wire.write_all(request.as_bytes()).await?;
        open(&mut wire).await
    };
    let opened = timeout(room.timings.dial, tunnel).await;
    let opened = opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    opened.map(|()| wire).map_err(DialFailed::Unreached)
}

/// A connection to `proxy` itself.
pub(super) async fn connect(room: &Room, proxy: &ProxyAddress) -> Result<Wire, DialFailed> {
    let connecting = async {
        match &proxy.host {
            Host::Address(address) => TcpStream::connect((*address, proxy.port)).await,
            Host::Name(name) => {
                let addresses = room.resolver.resolve(name).await?;
                let at = |it: &IpAddr| SocketAddr::new(*it, proxy.port);
                let addresses: Vec<_> = addresses.iter().map(at).collect();
                TcpStream::connect(addresses.as_slice()).await
            }
        }
    };
    let connected = timeout(room.timings.dial, connecting).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map(Wire::tcp).map_err(DialFailed::Unreached)
}

/// What a proxy wants to see, if it wants to see something.
pub(super) fn login(proxy: &ProxyAddress) -> Option<HeaderValue> {
    let login = proxy.login.as_ref()?;
    let text = format!("Basic {}", base64::encode(login.expose().as_bytes()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads the answer byte by byte: what follows it belongs to the tunnel.
async fn open(stream: &mut Wire) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(stream.read_u8().await?);
    }
    let status = head.get(..12).unwrap_or_default();
    match status {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', b'2', _, _] => Ok(()),
        [..] => Err(io::Error::other("the proxy of the host refused")),
    }
}
