//! Where programs in a sandbox meet the gateway.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::OwnedFd,
};

use bulkhead_linux::doors::{At, Carries, Door};
use bulkhead_policy::{NAMES_PORT, PROXY_PORT, Plan, SOCKS_PORT};
use bulkhead_spec::Network;

use crate::guest::{self, Listener};

/// Connections of one sandbox that a guest passes on at once, if nobody says how many; and those
/// that come on top, so that whoever is one too many is told so.
const CONNECTIONS: u32 = 256;
const MORE: u32 = 64;

/// Where programs meet the gateway, however what they say gets out.
///
/// Nobody else can come through, so whoever does is known by that: no name, header or token says
/// which sandbox it is. Dropping them refuses everything.
pub enum Doors {
    /// Sockets that are inside as far as programs can tell, and answered from outside.
    Sockets(Sockets),
    /// What the guest takes inside and passes on, for sandboxes whose network nobody can enter.
    Channels(Listener),
}

/// Sockets of a sandbox's network. None of them blocks.
#[derive(Debug)]
pub struct Sockets {
    /// For programs that know of a proxy, at `127.0.0.1` and [`bulkhead_policy::PROXY_PORT`].
    pub proxy: TcpListener,
    /// The same for those that speak SOCKS, at [`bulkhead_policy::SOCKS_PORT`].
    pub socks: TcpListener,
    /// For programs that do not: one for each port, at every address. What a program wanted to
    /// reach is the local address of its connection.
    pub streams: Vec<TcpListener>,
    /// For questions about names, at every address.
    pub names: UdpSocket,
    /// For those that come by connection.
    pub names_by_stream: TcpListener,
    /// The other end of its cable to its neighbours, if it has any.
    pub cable: Option<OwnedFd>,
}

/// Whether programs of `plan` meet a gateway.
pub(crate) fn has(plan: &Plan) -> bool {
    match plan.network() {
        Network::Proxy | Network::Observe => true,
        Network::None | Network::Open => false,
    }
}

/// The doors for `plan`: both proxies, names, names by stream, then a door for each port, and the
/// cable to its neighbours, if it has any.
pub(crate) fn wanted(plan: &Plan) -> Vec<Door> {
    let everywhere = |port| Door { carries: Carries::Streams, at: At::Everywhere, port };
    let first = [
        Door { carries: Carries::Streams, at: At::Loopback, port: PROXY_PORT },
        Door { carries: Carries::Streams, at: At::Loopback, port: SOCKS_PORT },
        Door { carries: Carries::Datagrams, at: At::Everywhere, port: NAMES_PORT },
        everywhere(NAMES_PORT),
    ];
    let cable = plan.address().map(|it| Door {
        carries: Carries::Packets,
        at: At::Address(it),
        port: 0,
    });
    first.into_iter().chain(plan.ports().into_iter().map(everywhere)).chain(cable).collect()
}

/// The ports of the gateway in a sandbox of `plan`, which are not for its neighbours.
pub fn ports(plan: &Plan) -> BTreeSet<u16> {
    let mut ports = plan.ports();
    ports.extend([PROXY_PORT, SOCKS_PORT, NAMES_PORT]);
    ports
}

/// The sockets of [`wanted`], in its order.
pub(crate) fn sorted(plan: &Plan, mut sockets: Vec<OwnedFd>) -> Option<Doors> {
    let cable = plan.address().and_then(|_| sockets.pop());
    let mut sockets = sockets.into_iter();
    Some(Doors::Sockets(Sockets {
        proxy: sockets.next()?.into(),
        socks: sockets.next()?.into(),
        names: sockets.next()?.into(),
        names_by_stream: sockets.next()?.into(),
        streams: sockets.map(Into::into).collect(),
        cable,
    }))
}

/// The doors of [`wanted`], for a guest to open. Names stand for addresses of version 4 there.
pub(crate) fn for_guest(plan: &Plan) -> guest::Doors {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    for Door { carries, at, port } in wanted(plan) {
        let ip: IpAddr = match at {
            At::Everywhere => Ipv4Addr::UNSPECIFIED.into(),
            At::Loopback => Ipv4Addr::LOCALHOST.into(),
            At::Address(address) => address.into(),
        };
        match carries {
            Carries::Streams => tcp.push(SocketAddr::new(ip, port)),
            Carries::Datagrams => udp.push(SocketAddr::new(ip, port)),
            // Plans with neighbours are refused before.
            Carries::Packets => {}
        }
    }
    let most = plan.egress().limits().connections.unwrap_or(CONNECTIONS);
    guest::Doors { tcp, udp, most: most.min(4 * CONNECTIONS).saturating_add(MORE) }
}
