//! What may be said in a tunnel.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers::{self, Pki, Web, tls},
    stage::{Stage, World},
    ways::{self, Reached, TUNNELS, Way, is_over, reach},
};

async fn world(pki: &Pki) -> (Arc<World>, Web) {
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("good.com", "203.0.113.1", 443, web.secure(pki, "good.com").await);
    world.put("other.com", "203.0.113.2", 443, web.secure(pki, "other.com").await);
    (world, web)
}

#[tokio::test]
async fn tls_to_the_allowed_name_passes_unread_by_every_way() {
    let pki = Pki::new();
    let (world, web) = world(&pki).await;
    let stage = Stage::new(&world, &["good.com"], &[]);
    for way in TUNNELS {
        let stream = reach(&stage, way, "good.com", 443).await.stream();
        // The certificate is the host's own, so nobody has read along.
        let mut stream = tls(stream, &pki.pem, "good.com", &["http/1.1"]).await.unwrap();
        stream
            .write_all(b"GET /x HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer).await);
        assert!(answer.contains("GET /x"), "{way:?} {answer}");
    }
    assert_eq!(web.heard().len(), TUNNELS.len());
    assert!(stage.gateway.certificate().is_none());
}

/// Row D6.
#[tokio::test]
async fn tls_to_another_name_is_cut_by_every_way() {
    let pki = Pki::new();
    let (world, web) = world(&pki).await;
    let stage = Stage::new(&world, &["good.com"], &[]);
    for way in TUNNELS {
        let stream = reach(&stage, way, "good.com", 443).await.stream();
        assert!(tls(stream, &pki.pem, "other.com", &[]).await.is_err(), "{way:?}");
        // A client that is given an address sends no name at all.
        let stream = reach(&stage, way, "good.com", 443).await.stream();
        assert!(tls(stream, &pki.pem, "203.0.113.1", &[]).await.is_err(), "{way:?}");
    }
    assert!(web.heard().is_empty());
    assert_eq!(stage.denied(), [("good.com".to_owned(), 443)]);
}

/// Row D6: whatever is hidden in a hello, the name outside is the one that is judged and that the
/// host goes by if it cannot read the other.
#[tokio::test]
async fn a_hello_within_a_hello_is_judged_by_the_name_outside() {
    let pki = Pki::new();
    let (world, web) = world(&pki).await;
    let stage = Stage::new(&world, &["good.com"], &[]);
    for way in TUNNELS {
        let stream = reach(&stage, way, "good.com", 443).await.stream();
        servers::hiding(stream, "good.com").await.unwrap();
        let stream = reach(&stage, way, "good.com", 443).await.stream();
        assert!(servers::hiding(stream, "other.com").await.is_err(), "{way:?}");
    }
    assert!(web.heard().is_empty());
}

/// Row D7.
#[tokio::test]
async fn opaque_bytes_on_443_are_cut_by_every_way() {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 443, servers::echo("").await);
    let stage = Stage::new(&world, &["good.com"], &[]);
    let says: [&[u8]; 4] = [
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"GET / HTTP/1.1\r\nHost: good.com\r\n\r\n",
        b"\x16",
        b"\x16\x03\x01\x00\x05hello",
    ];
    for way in TUNNELS {
        for said in says {
            let mut stream = reach(&stage, way, "good.com", 443).await.stream();
            stream.write_all(said).await.unwrap();
            assert!(is_over(&mut stream).await, "{way:?} {said:?}");
        }
        // One that waits for the server to speak first.
        let mut stream = reach(&stage, way, "good.com", 443).await.stream();
        assert!(is_over(&mut stream).await, "{way:?}");
    }
    let usage = stage.gateway.usage();
    assert_eq!((usage.up, usage.down), (0, 0));
}

#[tokio::test]
async fn a_rule_can_allow_any_bytes() {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 443, servers::echo("hi ").await);
    let stage = Stage::new(&world, &["tcp://good.com:443"], &[]);
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "good.com", 443).await.stream();
        stream.write_all(b"there").await.unwrap();
        let mut heard = [0; 8];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hi there", "{way:?}");
    }
}

#[tokio::test]
async fn tls_can_be_demanded_on_another_port() {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("good.com", "203.0.113.1", 8443, web.secure(&pki, "good.com").await);
    let stage = Stage::new(&world, &["https://good.com:8443"], &[]);
    for way in TUNNELS {
        let stream = reach(&stage, way, "good.com", 8443).await.stream();
        assert!(tls(stream, &pki.pem, "good.com", &[]).await.is_ok());
        let stream = reach(&stage, way, "good.com", 8443).await.stream();
        assert!(tls(stream, &pki.pem, "evil.com", &[]).await.is_err());
        let mut stream = reach(&stage, way, "good.com", 8443).await.stream();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(is_over(&mut stream).await);
    }
}

/// A megabyte each way, through the kernel's pipes and through buffers, arrives whole, and its
/// end arrives too.
#[tokio::test]
async fn tunnels_carry_everything_and_their_ends() {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 9000, servers::echo("").await);
    let stage = Stage::new(&world, &["good.com:9000"], &[]);
    let sent: Vec<u8> = (0..1_000_003_u32).map(|it| u8::try_from(it % 251).unwrap()).collect();
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "good.com", 9000).await.stream();
        let (mut from, mut to) = stream.split();
        let mut heard = Vec::new();
        let say = async {
            to.write_all(&sent).await.unwrap();
            to.shutdown().await.unwrap();
        };
        let ((), read) = tokio::join!(say, from.read_to_end(&mut heard));
        read.unwrap();
        assert!(heard == sent, "{way:?}");
    }
    let usage = stage.gateway.usage();
    let all = sent.len() as u64 * TUNNELS.len() as u64;
    assert_eq!((usage.up, usage.down), (all, all));
    assert_eq!(usage.hosts[0].connections, 4);
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_said_to_be_unreachable() {
    let world = Arc::new(World::default());
    world.name("dead.com", &["203.0.113.7"]);
    let stage = Stage::new(&world, &["dead.com"], &[]);
    let said = ways::connect(&stage, "dead.com:443").await.refusal();
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
    assert!(said.contains("\"retry\":true"), "{said}");
    assert!(matches!(reach(&stage, Way::SocksName, "dead.com", 443).await, Reached::No(_)));
    let mut stream = reach(&stage, Way::Transparent, "dead.com", 443).await.stream();
    assert!(is_over(&mut stream).await);
}

#[tokio::test]
async fn odd_socks_requests_are_refused() {
    let world = Arc::new(World::default());
    let stage = Stage::new(&world, &["good.com"], &[]);
    let bind = [&[5, 2, 0, 3, 8][..], b"good.com", &[1, 187]].concat();
    let udp = [&[5, 3, 0, 3, 8][..], b"good.com", &[1, 187]].concat();
    let kind = vec![5, 1, 0, 9, 0, 0, 0, 0, 0, 0];
    for (request, reply) in [(bind, "reply 7"), (udp, "reply 7"), (kind, "reply 8")] {
        assert_eq!(ways::socks(&stage, &request).await.refusal(), reply);
    }
    // Nothing but SOCKS5, and nobody who insists on logging in.
    for greeting in [&[4, 1, 0, 80, 1, 2, 3, 4, 0][..], &[5, 1, 2], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(stage.socks).await.unwrap();
        stream.write_all(greeting).await.unwrap();
        assert!(is_over(&mut stream).await);
    }
}
