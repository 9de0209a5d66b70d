//! Who comes to where the guest listens is passed on, with the address that was wanted.

use std::net::SocketAddr;

use bulkhead_backends::guest::{Doors, Listener};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::house::{BOTH, House, Over, soon};

/// An address where nobody listens, for both protocols.
async fn free(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let wildcard = if address.is_ipv4() { "0.0.0.0" } else { "::" };
    SocketAddr::new(wildcard.parse().unwrap(), address.port())
}

#[tokio::test]
async fn connections_are_passed_on_with_the_address_that_was_wanted() {
    for over in BOTH {
        let house = House::build(over);
        let door = free("127.0.0.1").await;
        let doors = Doors { tcp: vec![door], udp: vec![], most: 2 };
        let Listener { mut connections, .. } = soon(house.link.listen(doors)).await.unwrap();
        let wanted = SocketAddr::new("127.1.2.3".parse().unwrap(), door.port());
        let mut client = TcpStream::connect(wanted).await.unwrap();
        client.write_all(b"question").await.unwrap();
        let mut came = soon(connections.accept()).await.unwrap();
        assert_eq!(came.local, wanted);
        assert_eq!(came.peer, client.local_addr().unwrap());
        let mut asked = [0; 8];
        soon(came.channel.read_exact(&mut asked)).await.unwrap();
        assert_eq!(&asked, b"question");
        came.channel.write_all(b"answer").await.unwrap();
        drop(came);
        let mut answer = String::new();
        soon(client.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(answer, "answer", "{over:?}");
    }
}

#[tokio::test]
async fn more_connections_than_allowed_wait() {
    let house = House::build(Over::Pipes);
    let door = free("127.0.0.1").await;
    let doors = Doors { tcp: vec![door], udp: vec![], most: 2 };
    let Listener { mut connections, .. } = soon(house.link.listen(doors)).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(TcpStream::connect(("127.0.0.1", door.port())).await.unwrap());
    }
    let first = soon(connections.accept()).await.unwrap();
    let _second = soon(connections.accept()).await.unwrap();
    let third =
        tokio::time::timeout(std::time::Duration::from_millis(100), connections.accept());
    assert!(third.await.is_err(), "a third was let in");
    assert_eq!(house.say("echo fine").await.0, "fine\n");
    let gone = clients.iter().position(|it| it.local_addr().unwrap() == first.peer).unwrap();
    drop((first, clients.remove(gone)));
    soon(connections.accept()).await.unwrap();
}

#[tokio::test]
async fn datagrams_are_passed_on_and_answered_from_where_they_were_sent() {
    for (ip, wanted) in [("127.0.0.1", "127.3.2.1"), ("::1", "::1")] {
        let house = House::build(Over::Pipes);
        let door = free(ip).await;
        let doors = Doors { tcp: vec![], udp: vec![door], most: 0 };
        let Listener { mut datagrams, .. } = soon(house.link.listen(doors)).await.unwrap();
        let client = UdpSocket::bind((ip, 0)).await.unwrap();
        let wanted = SocketAddr::new(wanted.parse().unwrap(), door.port());
        client.connect(wanted).await.unwrap();
        client.send(b"question").await.unwrap();
        let came = soon(datagrams.receive()).await.unwrap();
        assert_eq!((came.local, came.peer), (wanted, client.local_addr().unwrap()));
        assert_eq!(came.bytes, b"question");
        datagrams.answer(&came, b"answer".to_vec());
        // A connected socket hears only whom it is connected to.
        let mut answer = [0; 100];
        let count = soon(client.recv(&mut answer)).await.unwrap();
        assert_eq!(&answer[..count], b"answer");
    }
}

#[tokio::test]
async fn datagrams_that_are_too_long_or_too_many_are_lost() {
    let house = House::build(Over::Pipes);
    let door = free("127.0.0.1").await;
    let doors = Doors { tcp: vec![], udp: vec![door], most: 0 };
    let Listener { mut datagrams, .. } = soon(house.link.listen(doors)).await.unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(("127.0.0.1", door.port())).await.unwrap();
    client.send(&[b'x'; 5000]).await.unwrap();
    for _ in 0..500 {
        client.send(b"short").await.unwrap();
    }
    assert_eq!(house.say("echo fine").await.0, "fine\n");
    assert_eq!(soon(datagrams.receive()).await.unwrap().bytes, b"short");
}

#[tokio::test]
async fn a_door_that_cannot_be_opened_is_refused_and_none_is_open() {
    let house = House::build(Over::Pipes);
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (free, taken) = (free("127.0.0.1").await, taken.local_addr().unwrap());
    let doors = Doors { tcp: vec![free, taken], udp: vec![], most: 2 };
    assert!(soon(house.link.listen(doors)).await.is_err());
    assert!(TcpStream::connect(("127.0.0.1", free.port())).await.is_err());
    assert_eq!(house.say("echo fine").await.0, "fine\n");
}
