//! By way of the proxy that stands between the host and the world.
//!
//! That proxy resolves the names, so what it reaches is its business; what may be asked of it is
//! ours.

use std::io;

use bulkhead_spec::Host;
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
    let tunnel = async {
        let mut stream = match &proxy.host {
            Host::Address(address) => TcpStream::connect((*address, proxy.port)).await?,
            Host::Name(name) => {
                let addresses = room.resolver.resolve(name).await?;
                let addresses: Vec<_> =
                    addresses.iter().map(|it| (*it, proxy.port).into()).collect();
                TcpStream::connect(addresses.as_slice()).await?
            }
        };
        stream.write_all(request(proxy, to).as_bytes()).await?;
        open(&mut stream).await?;
        Ok(Wire::tcp(stream))
    };
    let tunnel = timeout(room.timings.dial, tunnel).await;
    tunnel
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(DialFailed::Unreached)
}

fn request(proxy: &ProxyAddress, to: &Destination) -> String {
    let login = proxy.login.as_ref().map(|login| {
        format!("Proxy-Authorization: Basic {}\r\n", base64::encode(login.expose().as_bytes()))
    });
    let login = login.unwrap_or_default();
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n")
}

/// Reads the answer byte by byte: what follows it belongs to the tunnel.
async fn open(stream: &mut TcpStream) -> io::Result<()> {
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
