//! Where programs in a sandbox meet the gateway.

use std::net::{TcpListener, UdpSocket};

/// Sockets that are inside as far as programs can tell, and answered from outside.
///
/// Nobody else can reach them, so whoever comes through one is known by that: no name, header or
/// token says which sandbox it is. None of them blocks.
#[derive(Debug)]
pub struct Doors {
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
}
