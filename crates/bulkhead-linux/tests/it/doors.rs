//! Doors in a sandbox's network, tried from both sides.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use bulkhead_linux::{
    doors::{At, Carries, Door, MOST, receive},
    steps::Step,
};

use super::nursery::Room;

const STREAMS: Door = Door { carries: Carries::Streams, at: At::Everywhere, port: 443 };
const NAMES: Door = Door { carries: Carries::Datagrams, at: At::Everywhere, port: 53 };
const PROXY: Door = Door { carries: Carries::Streams, at: At::Loopback, port: 3128 };

/// A sandbox with `doors`, and what its parent got of them.
fn room(doors: &[Door]) -> (Room, Vec<OwnedFd>) {
    let (orders, theirs) = UnixStream::pair().unwrap();
    let step = Step::Doors { doors: doors.into(), to: theirs.as_raw_fd() };
    let room = Room::networked(vec![], Some(step));
    let sockets = receive(orders.as_fd(), room.newborn.pidfd()).unwrap();
    (room, sockets)
}

/// Runs `script` in Python.
fn python(room: &mut Room, script: &str) {
    room.say(&format!("exec 2>&1; exec python3 - <<'END'\n{script}\nEND\n"));
}

/// Waits for one connection and returns where it was meant to go, and the stream.
fn accept(listener: &OwnedFd) -> (SocketAddr, std::net::TcpStream) {
    let listener = TcpListener::from(listener.try_clone().unwrap());
    let late = Instant::now() + Duration::from_secs(20);
    let (stream, _) = loop {
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                assert!(Instant::now() < late, "nobody came");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    stream.set_nonblocking(false).unwrap();
    let wanted = stream.local_addr().unwrap();
    (SocketAddr::new(wanted.ip().to_canonical(), wanted.port()), stream)
}

#[test]
fn whatever_is_called_answers_outside_and_tells_what_was_wanted() {
    let (mut room, sockets) = room(&[STREAMS, NAMES, PROXY]);
    assert_eq!(sockets.len(), 3);
    python(
        &mut room,
        "import socket
for address in ['93.184.216.34', '169.254.169.254', '127.0.0.9', '2001:db8::7', '::1']:
    with socket.create_connection((address, 443), 20) as it: print(it.recv(99).decode())",
    );
    for wanted in ["93.184.216.34", "169.254.169.254", "127.0.0.9", "2001:db8::7", "::1"] {
        let (address, mut stream) = accept(&sockets[0]);
        assert_eq!(address, SocketAddr::new(wanted.parse().unwrap(), 443));
        stream.write_all(format!("you wanted {address}").as_bytes()).unwrap();
    }
    let printed = room.end().unwrap();
    assert!(printed.starts_with("you wanted 93.184.216.34:443\nyou wanted 169"), "{printed}");
    assert!(printed.ends_with("you wanted [::1]:443\n"), "{printed}");
}

#[test]
fn packets_come_from_where_they_were_sent_to() {
    let (mut room, sockets) = room(&[NAMES]);
    python(
        &mut room,
        "import socket
for address in ['8.8.8.8', '127.0.0.1']:
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.settimeout(20)
    it.connect((address, 53))
    it.send(b'who')
    print(it.recvfrom(99))",
    );
    let socket = UdpSocket::from(sockets.into_iter().next().unwrap());
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for _ in 0..2 {
        let mut packet = [0; 16];
        let (length, from) = socket.recv_from(&mut packet).unwrap();
        assert_eq!(&packet[..length], b"who");
        socket.send_to(b"me", from).unwrap();
    }
    let expected = "(b'me', ('8.8.8.8', 53))\n(b'me', ('127.0.0.1', 53))\n";
    assert_eq!(room.end().unwrap(), expected);
}

#[test]
fn what_has_no_door_is_refused_at_once() {
    let (mut room, _sockets) = room(&[STREAMS, PROXY]);
    python(
        &mut room,
        "import socket
def tried(kind, address, port):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    it = socket.socket(family, kind)
    it.settimeout(20)
    try:
        it.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            it.send(b'?')
            it.recv(9)
        return 'reached'
    except OSError as error:
        return error.errno
stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
print(tried(stream, '93.184.216.34', 80), tried(stream, '2001:db8::7', 22))
print(tried(datagram, '93.184.216.34', 443), tried(datagram, '8.8.8.8', 53), tried(datagram, '2001:db8::7', 443))
print(tried(stream, '93.184.216.34', 3128), tried(stream, '::1', 3128), tried(stream, '127.0.0.1', 3128))",
    );
    let refused = libc::ECONNREFUSED;
    let expected = format!(
        "{refused} {refused}\n{refused} {refused} {refused}\n{refused} {refused} reached\n"
    );
    assert_eq!(room.end().unwrap(), expected);
}

#[test]
fn programs_inside_meet_each_other_as_usual_and_take_no_door() {
    let (mut room, _sockets) = room(&[STREAMS, NAMES, PROXY]);
    python(
        &mut room,
        "import socket
def bound(kind, address, port, *options):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    it = socket.socket(family, kind)
    try:
        for option in options: it.setsockopt(socket.SOL_SOCKET, option, 1)
        it.bind((address, port))
        if kind == socket.SOCK_STREAM: it.listen()
        return it
    except OSError as error:
        return error.errno
stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
both = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
for address in ['127.0.0.1', '0.0.0.0']:
    print(bound(stream, address, 3128), bound(stream, address, 3128, *both))
print(bound(stream, '127.0.0.1', 443, *both), bound(datagram, '::', 53, *both))
server = bound(stream, '127.0.0.1', 3000)
client = socket.create_connection(('127.0.0.1', 3000), 20)
accepted, _ = server.accept()
accepted.send(b'as usual')
print(client.recv(99))",
    );
    let (taken, denied) = (libc::EADDRINUSE, libc::EACCES);
    let expected =
        format!("{taken} {taken}\n{taken} {taken}\n{denied} {denied}\nb'as usual'\n");
    assert_eq!(room.end().unwrap(), expected);
}

#[test]
fn nobody_answers_when_the_holder_is_gone() {
    let (mut room, sockets) = room(&[STREAMS]);
    drop(sockets);
    python(
        &mut room,
        "import socket
try: socket.create_connection(('93.184.216.34', 443), 20)
except OSError as error: print(error.errno)",
    );
    assert_eq!(room.end().unwrap(), format!("{}\n", libc::ECONNREFUSED));
}

#[test]
fn nothing_of_a_door_is_left_inside() {
    let sockets = |mut room: Room| {
        room.say("ls -l /proc/self/fd /proc/1/fd | grep -c socket:\n");
        room.end().unwrap()
    };
    let (with, held) = room(&[STREAMS, PROXY]);
    assert_eq!(sockets(with), sockets(Room::with(vec![])));
    assert_eq!(held.len(), 2);
}

#[test]
fn a_door_that_cannot_be_opened_ends_the_birth() {
    let (room, sockets) = room(&[PROXY, PROXY]);
    assert!(sockets.is_empty());
    let failed = room.end().unwrap_err();
    let action = "own every address and open doors at tcp:127.0.0.1:3128 tcp:127.0.0.1:3128";
    assert_eq!(failed.action, action);
    assert_eq!(failed.source.raw_os_error(), Some(libc::EADDRINUSE));
}

#[test]
fn there_is_an_end_to_doors() {
    let door = |port| Door { port, ..STREAMS };
    let most: Vec<Door> = (1..=MOST).map(|it| door(u16::try_from(it).unwrap())).collect();
    let (room_of_most, sockets) = room(&most);
    assert_eq!(sockets.len(), MOST);
    drop(room_of_most);
    let more: Vec<Door> = (1..=MOST + 1).map(|it| door(u16::try_from(it).unwrap())).collect();
    let (room, _) = room(&more);
    assert_eq!(room.end().unwrap_err().source.raw_os_error(), Some(libc::EMFILE));
}
