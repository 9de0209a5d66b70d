//! Nothing outside the sandbox can be talked to.

use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram, UnixListener},
    },
};

use bulkhead_backends::Backend;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites reaches_no_tcp_port,
    Bites reaches_no_udp_port,
    Bites reaches_no_abstract_socket,
    Bites reaches_no_socket_file,
    Bites sees_no_interface_but_its_own,
    BitesAsRoot joins_no_other_network,
];

fn reaches_no_tcp_port(backend: &dyn Backend) -> Result<Verdict, Failed> {
    tcp_port(&Room::new(backend)?)
}

fn reaches_no_udp_port(backend: &dyn Backend) -> Result<Verdict, Failed> {
    udp_port(&Room::new(backend)?)
}

fn reaches_no_abstract_socket(backend: &dyn Backend) -> Result<Verdict, Failed> {
    abstract_socket(&Room::new(backend)?)
}

fn reaches_no_socket_file(backend: &dyn Backend) -> Result<Verdict, Failed> {
    socket_file(&Room::new(backend)?)
}

fn sees_no_interface_but_its_own(backend: &dyn Backend) -> Result<Verdict, Failed> {
    interfaces(&Room::new(backend)?)
}

fn joins_no_other_network(backend: &dyn Backend) -> Result<Verdict, Failed> {
    other_network(&Room::new(backend)?)
}

pub(crate) fn tcp_port(room: &Room<'_>) -> Result<Verdict, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let script = r#"
import socket
for address in ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::ffff:127.0.0.1", "localhost"]:
    if works(lambda: socket.create_connection((address, int(args[0])), 5)):
        broken(address)
held()
"#;
    room.attack(script, &[&port])
}

pub(crate) fn udp_port(room: &Room<'_>) -> Result<Verdict, Failed> {
    let listener = UdpSocket::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let script = r#"
import socket
works(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", int(args[0]))))
"#;
    room.says(script, &[&port])?;
    listener.set_nonblocking(true)?;
    arrived(listener.recv(&mut [0; 8]))
}

/// They belong to the network namespace, not to a directory.
pub(crate) fn abstract_socket(room: &Room<'_>) -> Result<Verdict, Failed> {
    let name = room.token();
    let address = SocketAddr::from_abstract_name(&name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let datagrams = SocketAddr::from_abstract_name(format!("{name}-datagrams"))?;
    let datagrams = UnixDatagram::bind_addr(&datagrams)?;
    let script = r#"
import socket
stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
if works(stream.connect, "\0" + args[0]):
    broken("connected")
if works(datagram.sendto, b"out", "\0" + args[0] + "-datagrams"):
    broken("sent")
held()
"#;
    let verdict = room.attack(script, &[&name]);
    drop((listener, datagrams));
    verdict
}

/// A network namespace does not cover them: the agents and daemons of the host listen there.
pub(crate) fn socket_file(room: &Room<'_>) -> Result<Verdict, Failed> {
    let path = room.outside().join("agent.sock");
    let listener = UnixListener::bind(&path)?;
    let script = r#"
import glob, socket
paths = [args[0], "/proc/1/root" + args[0], "/run/docker.sock", "/run/dbus/system_bus_socket"]
for path in paths + glob.glob("/run/**/*", recursive=True) + glob.glob("/tmp/*/*"):
    if works(lambda: socket.socket(socket.AF_UNIX).connect(path)):
        broken(path)
held()
"#;
    let verdict = room.attack(script, &[&path.display().to_string()]);
    drop(listener);
    verdict
}

pub(crate) fn interfaces(room: &Room<'_>) -> Result<Verdict, Failed> {
    let script = r#"
import socket
if os.readlink("/proc/self/ns/net") == args[0]:
    broken("shares the host's network")
names = [name for _, name in socket.if_nameindex()]
if names != ["lo"]:
    broken(names)
lines = open("/proc/net/route").read().splitlines()[1:]
if lines:
    broken(lines)
# Loopback itself works: programs talk to themselves by it.
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname(), 5)
held()
"#;
    let host = std::fs::read_link("/proc/self/ns/net")?;
    room.attack(script, &[&host.display().to_string()])
}

pub(crate) fn other_network(room: &Room<'_>) -> Result<Verdict, Failed> {
    let script = r#"
def join(path):
    file = os.open(path, os.O_RDONLY)
    if libc.setns(file, 0) == -1:
        raise OSError(ctypes.get_errno(), "setns")

for path in ["/proc/1/ns/net", "/proc/self/ns/net", "/run/netns"]:
    if in_child(lambda: 0 if works(join, path) else 1) == 0:
        broken(path)
held()
"#;
    room.attack(script, &[])
}

/// What a socket of the host that does not wait has got.
fn arrived(received: io::Result<usize>) -> Result<Verdict, Failed> {
    match received {
        Ok(_) => Ok(Verdict::Broken("a datagram arrived".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Verdict::Held),
        Err(error) => Err(error.into()),
    }
}
