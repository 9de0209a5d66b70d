//! Channels: a slow reader holds up nobody else, and connections reach inside.

use std::{path::Path, time::Duration};

use bulkhead_backends::{
    BackendError, ProcessHandle as _, Streams,
    guest::{Status, To},
};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UnixListener},
};

use crate::house::{BOTH, House, Over, end, reading_shell, shell, soon};

#[tokio::test]
async fn a_flood_that_nobody_reads_holds_up_nobody() {
    for over in BOTH {
        let house = House::build(over);
        let mut flood = house.start(shell("exec yes")).await;
        let Streams { mut stdout, .. } = flood.take_streams().unwrap();
        // Long enough for it to fill everything on the way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..10 {
            assert_eq!(house.say("echo fine").await.0, "fine\n");
        }
        // It waits, and goes on when it is read.
        let mut some = vec![0; 1 << 20];
        soon(stdout.read_exact(&mut some)).await.unwrap();
        assert!(some.chunks(2).all(|it| it == b"y\n"));
        flood.handle().signal(Signal::KILL).await.unwrap();
        drop(stdout);
        // Whichever comes first: the signal, or the news that nobody reads any more.
        let status = end(&mut flood).await.status;
        assert!(matches!(status, Status::Signaled(9 | 13)), "{over:?}: {status:?}");
    }
}

#[tokio::test]
async fn an_end_is_told_when_nobody_wants_the_last_words() {
    for over in BOTH {
        let house = House::build(over);
        let mut flood = house.start(shell("exec yes")).await;
        let Streams { stdout, .. } = flood.take_streams().unwrap();
        // Long enough for it to fill everything on the way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        flood.handle().signal(Signal::KILL).await.unwrap();
        // By then it has ended, and what it wrote cannot be carried.
        for _ in 0..10 {
            assert_eq!(house.say("echo fine").await.0, "fine\n");
        }
        drop(stdout);
        assert_eq!(end(&mut flood).await.status, Status::Signaled(9), "{over:?}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_holds_up_nobody() {
    for over in BOTH {
        let house = House::build(over);
        let mut deaf = house.start(reading_shell("exec sleep 1000")).await;
        let mut stdin = deaf.take_streams().unwrap().stdin.unwrap();
        let much = vec![0; 10 << 20];
        let wrote = tokio::time::timeout(Duration::from_millis(200), stdin.write_all(&much));
        assert!(wrote.await.is_err(), "there is no end to what it takes");
        assert_eq!(house.say("echo fine").await.0, "fine\n", "{over:?}");
    }
}

/// A listener inside, which is as much the host's: the guest has no walls here.
async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_port_inside_is_reached_both_ways_and_half_closed() {
    for over in BOTH {
        let house = House::build(over);
        let (listener, port) = listener().await;
        let inside = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = String::new();
            stream.read_to_string(&mut asked).await.unwrap();
            // It has heard the end of the question, and the answer still goes out.
            stream.write_all(asked.repeat(100_000).as_bytes()).await.unwrap();
        });
        let mut channel = soon(house.link.connect(To::Port(port))).await.unwrap();
        channel.write_all(b"question").await.unwrap();
        channel.shutdown().await.unwrap();
        let mut answer = String::new();
        soon(channel.read_to_string(&mut answer)).await.unwrap();
        assert!(answer == "question".repeat(100_000), "{over:?}: {} bytes", answer.len());
        inside.await.unwrap();
    }
}

#[tokio::test]
async fn a_port_of_the_newer_protocol_is_reached() {
    let house = House::build(Over::Pipes);
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let inside = tokio::spawn(async move {
        listener.accept().await.unwrap().0.write_all(b"six").await.unwrap();
    });
    let mut channel = soon(house.link.connect(To::Port(port))).await.unwrap();
    let mut said = String::new();
    soon(channel.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "six");
    inside.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_dropped_is_closed_inside() {
    let house = House::build(Over::Pipes);
    let (listener, port) = listener().await;
    let channel = soon(house.link.connect(To::Port(port))).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(channel);
    assert_eq!(soon(stream.read(&mut [0; 10])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_socket_with_a_name_is_reached() {
    let house = House::build(Over::Pipes);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let to = |it: &Path| To::Path(it.as_os_str().as_encoded_bytes().to_vec());
    let mut channel = soon(house.link.connect(to(&path))).await.unwrap();
    let (mut stream, _) = soon(listener.accept()).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    drop(stream);
    let mut said = String::new();
    soon(channel.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "hello");
    for wrong in
        [dir.path().join("nothing"), "/".into(), format!("/{}", "x".repeat(500)).into()]
    {
        let refused = soon(house.link.connect(to(&wrong))).await;
        assert!(matches!(refused, Err(BackendError::System { .. })), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let house = House::build(Over::Socket);
    let (listener, port) = listener().await;
    drop(listener);
    let Err(BackendError::System { source, .. }) =
        soon(house.link.connect(To::Port(port))).await
    else {
        panic!("somebody answered")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
}
