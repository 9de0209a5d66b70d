//! Nothing outside can be talked to but by way of the egress gateway.
//!
//! What the gateway lets through is its own affair and tried elsewhere. Here somebody stands at
//! its doors who never lets anybody through, and whoever gets out all the same has found another
//! way.

use std::{
    io::Read as _,
    net::{TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use bulkhead_backends::{Backend, Doors};
use bulkhead_spec::Network;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    host, no_network,
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites reaches_no_tcp_port,
    Bites reaches_no_udp_port,
    Bites reaches_no_abstract_socket,
    Bites reaches_no_socket_file,
    Bites sees_no_interface_but_its_own,
    BitesAsRoot joins_no_other_network,
    BitesAsRoot reaches_no_host_port_that_is_also_a_door,
    BitesAsRoot asks_no_resolver_of_the_host,
    BitesAsRoot makes_no_packets_of_its_own,
    Bites takes_no_door,
    Bites is_refused_when_nobody_answers,
    CannotBeBuilt tells_the_gateway_what_it_wanted,
    CannotBeBuilt is_refused_at_once_elsewhere,
];

/// A room whose only way out is the gateway.
fn proxied(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.network = Network::Proxy;
    Ok(room)
}

fn reaches_no_tcp_port(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::tcp_port(&proxied(backend)?)
}

fn reaches_no_udp_port(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::udp_port(&proxied(backend)?)
}

fn reaches_no_abstract_socket(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::abstract_socket(&proxied(backend)?)
}

fn reaches_no_socket_file(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::socket_file(&proxied(backend)?)
}

fn sees_no_interface_but_its_own(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::interfaces(&proxied(backend)?)
}

fn joins_no_other_network(backend: &dyn Backend) -> Result<Verdict, Failed> {
    no_network::other_network(&proxied(backend)?)
}

/// An address of loopback that nobody else on this host uses.
fn own_address() -> String {
    let id = std::process::id();
    format!("127.77.{}.{}", id >> 8 & 0xff, id & 0xff)
}

/// The same port, and whoever listens on it outside is not who answers inside.
fn reaches_no_host_port_that_is_also_a_door(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let address = own_address();
    // Only root may listen there; the attack on `none` is tried by root alone.
    let listener = if host::is_root() {
        Some([
            TcpListener::bind((address.as_str(), 443))?,
            TcpListener::bind((address.as_str(), 80))?,
        ])
    } else {
        None
    };
    let accepting = listener.map(|both| {
        std::thread::spawn(move || {
            for listener in &both {
                listener.set_nonblocking(true)?;
            }
            host::eventually_within(Duration::from_secs(2), || {
                both.iter().find_map(|it| it.accept().ok())
            })
            .map_or(Ok(()), |(stream, _)| std::io::Write::write_all(&mut &stream, b"outside"))
        })
    });
    let script = r#"
import socket
for port in [443, 80]:
    try:
        reached = socket.create_connection((args[0], port), 5)
        reached.settimeout(3)
        if reached.recv(99) == b"outside":
            broken("reached the host")
    except OSError:
        pass
held()
"#;
    let verdict = proxied(backend)?.attack(script, &[&address]);
    if let Some(accepting) = accepting {
        accepting.join().map_err(|_| "the host's side failed")??;
    }
    verdict
}

/// Not even a question about a name leaves.
fn asks_no_resolver_of_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let address = own_address();
    let resolver =
        if host::is_root() { Some(UdpSocket::bind((address.as_str(), 53))?) } else { None };
    let quic =
        if host::is_root() { Some(UdpSocket::bind((address.as_str(), 443))?) } else { None };
    let script = r#"
import socket
for port in [53, 443]:
    works(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", (args[0], port)))
"#;
    proxied(backend)?.says(script, &[&address])?;
    for socket in resolver.iter().chain(&quic) {
        socket.set_nonblocking(true)?;
        if socket.recv(&mut [0; 8]).is_ok() {
            return Ok(Verdict::Broken("a datagram arrived".to_owned()));
        }
    }
    Ok(Verdict::Held)
}

fn makes_no_packets_of_its_own(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import socket
for kind in [(socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)]:
    if works(lambda: socket.socket(*kind)):
        broken(kind)
transparent = socket.socket()
if works(lambda: transparent.setsockopt(socket.SOL_IP, 19, 1)):
    broken("takes over connections of others")
held()
"#;
    proxied(backend)?.attack(script, &[])
}

/// A program that answered in the gateway's place could tell the others anything.
fn takes_no_door(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let port = bulkhead_policy::PROXY_PORT.to_string();
    let script = r#"
import socket
for address in ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    taker = socket.socket(family)
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    if works(taker.bind, (address, int(args[0]))) and works(taker.listen):
        broken(address)
held()
"#;
    proxied(backend)?.attack(script, &[&port])
}

/// The gateway ends with whoever started it, and with it every way out.
fn is_refused_when_nobody_answers(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = proxied(backend)?;
    let outside = TcpListener::bind("127.0.0.1:0")?;
    let port = outside.local_addr()?.port().to_string();
    // First what is outside: where there are no walls, nothing further away is tried.
    let script = r#"
import socket, time
say("up")
late = time.monotonic() + 3
for port in [int(args[0]), 443, 80, 53, 3128]:
    for address in ["127.0.0.1", "93.184.216.34", "2001:db8::1"]:
        while works(lambda: socket.create_connection((address, port), 1).close()):
            if late < time.monotonic():
                broken(f"{address} {port}")
            time.sleep(0.01)
held()
"#;
    let mut inside = room.enter(script, &[&port])?;
    inside.hear("up")?;
    drop(inside.take_doors());
    let ending = inside.wait()?;
    inside.destroy(ending)?.verdict()
}

/// Everything that can be connected to is a door, and it knows the address.
fn tells_the_gateway_what_it_wanted(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = proxied(backend)?;
    let script = r#"
import socket
print("up", flush=True)
for address in ["93.184.216.34", "169.254.169.254", "10.0.0.1", "2001:db8::1"]:
    with socket.create_connection((address, 443), 20) as stream:
        stream.sendall(address.encode())
        stream.shutdown(socket.SHUT_WR)
        if stream.recv(99) != b"":
            broken(address)
held()
"#;
    let mut inside = room.enter(script, &[])?;
    let doors = inside.take_doors().ok_or("there are no doors")?;
    let Doors::Sockets(doors) = doors else { return Err("they are no sockets".into()) };
    let web = doors.streams.iter().find(|it| it.local_addr().is_ok_and(|it| it.port() == 443));
    let web = web.ok_or("there is no door at port 443")?;
    for _ in 0..4 {
        let mut stream: TcpStream = host::eventually("a connection", || web.accept().ok())?.0;
        stream.set_nonblocking(false)?;
        let wanted = stream.local_addr()?.ip().to_canonical().to_string();
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        if said != wanted {
            return Ok(Verdict::Broken(format!("`{said}` came in as `{wanted}`")));
        }
    }
    let ending = inside.wait()?;
    inside.destroy(ending)?.verdict()
}

/// An agent that waits a minute for nothing tries again; one that is refused reads why.
fn is_refused_at_once_elsewhere(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import errno, socket, time
started = time.monotonic()
for kind, port in [(socket.SOCK_STREAM, 22), (socket.SOCK_STREAM, 8443), (socket.SOCK_DGRAM, 443), (socket.SOCK_DGRAM, 123)]:
    for address in ["93.184.216.34", "169.254.169.254", "2001:db8::1"]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        out = socket.socket(family, kind)
        out.settimeout(10)
        try:
            out.connect((address, port))
            out.send(b"out")
            out.recv(9)
            broken(f"{address} {port}")
        except OSError as error:
            # The last: it has no address of that kind to come from.
            refused = [errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL]
            if error.errno not in refused:
                broken(f"{address} {port}: {error}")
if 5 < time.monotonic() - started:
    broken("it took long")
held()
"#;
    proxied(backend)?.attack(script, &[])
}
