//! SOCKS5, with names and with addresses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use bulkhead_spec::Host;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    destination::Destination,
    dial::{self, DialFailed},
    gate,
    room::Room,
    tunnel,
    wire::Wire,
};

/// What is said back; the numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Granted = 0,
    Failed = 1,
    Denied = 2,
    Unreachable = 4,
    NotSupported = 7,
    NoSuchAddress = 8,
}

/// What somebody asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This host.
    Host(Destination),
    /// Something that names no host.
    Unreadable(String, u16),
}

/// Reads what is wanted, and connects it or says why not.
pub(crate) async fn serve(room: &Arc<Room>, mut wire: Wire) {
    let asked = timeout(room.timings.handshake, greet(&mut wire)).await;
    let opened = match asked {
        Ok(Ok(Ok(wanted))) => open(room, wanted).await,
        Ok(Ok(Err(reply))) => Err(reply),
        Ok(Err(_)) | Err(_) => return,
    };
    let reply = opened.as_ref().err().copied().unwrap_or(Reply::Granted);
    // The address that it would be bound to is nobody's business.
    let said = wire.write_all(&[5, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    match opened {
        Ok((permit, outside)) if said.is_ok() => {
            tunnel::serve(room, permit, wire, outside).await;
        }
        Ok(_) | Err(_) => drop(wire.shutdown().await),
    }
}

/// The greeting and the request.
async fn greet(wire: &mut Wire) -> io::Result<Result<Wanted, Reply>> {
    let [version, methods] = read(wire).await?;
    if version != 5 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut offered = vec![0; usize::from(methods)];
    wire.read_exact(&mut offered).await?;
    // Who asks is known by the socket, so nobody needs to log in.
    if !offered.contains(&0) {
        wire.write_all(&[5, 0xff]).await?;
        return Err(io::ErrorKind::Unsupported.into());
    }
    wire.write_all(&[5, 0]).await?;
    request(wire).await
}

/// What a client is taken to want, as text.
pub(crate) async fn read_wanted(wire: &mut Wire) -> Option<String> {
    match request(wire).await {
        Ok(Ok(Wanted::Host(destination))) => Some(destination.to_string()),
        Ok(Ok(Wanted::Unreadable(..)) | Err(_)) | Err(_) => None,
    }
}

async fn request(wire: &mut Wire) -> io::Result<Result<Wanted, Reply>> {
    let [version, command, _, kind] = read(wire).await?;
    if version != 5 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if command != 1 {
        return Ok(Err(Reply::NotSupported));
    }
    wanted(wire, kind).await
}

async fn wanted(wire: &mut Wire, kind: u8) -> io::Result<Result<Wanted, Reply>> {
    let text = match kind {
        1 => {
            let four = Ipv4Addr::from(read::<4>(wire).await?);
            return address(wire, four.into()).await;
        }
        4 => {
            let six = Ipv6Addr::from(read::<16>(wire).await?);
            return address(wire, six.into()).await;
        }
        3 => {
            let [length] = read(wire).await?;
            let mut name = vec![0; usize::from(length)];
            wire.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Ok(Err(Reply::NoSuchAddress)),
    };
    let port = u16::from_be_bytes(read(wire).await?);
    Ok(Ok(match text.parse::<Host>() {
        Ok(host) if port != 0 => Wanted::Host(Destination { host, port }),
        Ok(_) | Err(_) => Wanted::Unreadable(text, port),
    }))
}

async fn address(wire: &mut Wire, address: IpAddr) -> io::Result<Result<Wanted, Reply>> {
    let port = u16::from_be_bytes(read(wire).await?);
    let host = Host::from(address);
    Ok(Ok(if port == 0 {
        Wanted::Unreadable(host.to_string(), port)
    } else {
        Wanted::Host(Destination { host, port })
    }))
}

async fn read<const N: usize>(wire: &mut Wire) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    wire.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn open(room: &Room, wanted: Wanted) -> Result<(gate::Permit, Option<Wire>), Reply> {
    let destination = match wanted {
        Wanted::Host(destination) => room.named(destination),
        Wanted::Unreadable(text, port) => {
            gate::unreadable(room, &text, port);
            return Err(Reply::Denied);
        }
    };
    let permit = gate::judge(room, destination).map_err(|_| Reply::Denied)?;
    if !tunnel::is_blind(room, &permit) {
        return Ok((permit, None));
    }
    match dial::dial(room, &permit).await {
        Ok(outside) => Ok((permit, Some(outside))),
        Err(DialFailed::Forbidden) => Err(Reply::Denied),
        Err(DialFailed::Unresolved(_)) => Err(Reply::Unreachable),
        Err(DialFailed::Unreached(_)) => Err(Reply::Failed),
    }
}
