//! Rules that change while a sandbox runs, and gateways that end.

use std::sync::Arc;

use bulkhead_spec::EgressEvent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers,
    stage::{Stage, World, rules},
    ways::{self, Reached, TUNNELS, is_over, reach},
};

async fn world() -> Arc<World> {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 9000, servers::echo("").await);
    world.put("also.com", "203.0.113.2", 9000, servers::echo("").await);
    world
}

/// Row D25.
#[tokio::test]
async fn a_rule_that_is_taken_back_cuts_what_it_allowed_and_nothing_else() {
    let world = world().await;
    for way in TUNNELS {
        let stage = Stage::new(&world, &["good.com:9000", "also.com:9000"], &[]);
        let mut good = reach(&stage, way, "good.com", 9000).await.stream();
        let mut also = reach(&stage, way, "also.com", 9000).await.stream();
        for stream in [&mut good, &mut also] {
            stream.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
        }
        stage.gateway.replace_rules(rules(&["good.com:9000", "also.com:9000"], &["good.com"]));
        assert!(is_over(&mut good).await, "{way:?}");
        also.write_all(b"y").await.unwrap();
        assert_eq!(also.read_u8().await.unwrap(), b'y');
        match reach(&stage, way, "good.com", 9000).await {
            Reached::No(_) => {}
            Reached::Stream(mut stream) => assert!(is_over(&mut stream).await),
        }
        let said = EgressEvent::RulesChanged { allow: 2, deny: 1 };
        assert!(stage.events.lock().unwrap().contains(&said));
    }
}

#[tokio::test]
async fn a_rule_that_is_added_counts_at_once() {
    let world = world().await;
    let stage = Stage::new(&world, &[], &[]);
    assert!(ways::resolve(&stage, "good.com").is_none());
    stage.gateway.replace_rules(rules(&["good.com:9000"], &[]));
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "good.com", 9000).await.stream();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x', "{way:?}");
    }
}

/// Row D26.
#[tokio::test]
async fn a_gateway_that_is_gone_is_a_way_out_that_is_shut() {
    let world = world().await;
    let stage = Stage::new(&world, &["good.com:9000"], &[]);
    let mut open = Vec::new();
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "good.com", 9000).await.stream();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        open.push(stream);
    }
    let (http, socks) = (stage.http, stage.socks);
    let usage = stage.gateway.shutdown();
    assert_eq!(usage.connections, 4);
    for mut stream in open {
        assert!(is_over(&mut stream).await);
    }
    assert!(tokio::net::TcpStream::connect(http).await.is_err());
    assert!(tokio::net::TcpStream::connect(socks).await.is_err());
}

/// Row D18: each sandbox has its own, and what is allowed to one says nothing about another.
#[tokio::test]
async fn two_gateways_know_nothing_of_each_other() {
    let world = world().await;
    let one = Stage::new(&world, &["good.com:9000"], &[]);
    let other = Stage::new(&world, &["also.com:9000"], &[]);
    for way in TUNNELS {
        reach(&one, way, "good.com", 9000).await.stream();
        assert!(
            matches!(reach(&other, way, "good.com", 9000).await, Reached::No(_)),
            "{way:?}"
        );
    }
    // Nor does an address that stands for a name there stand for it here.
    let address = ways::resolve(&one, "good.com").unwrap();
    let mut stream = ways::transparent(&other, (address, 9000).into()).await;
    assert!(is_over(&mut stream).await);
}

/// Row D25, for an answer that never ends.
#[tokio::test]
async fn a_rule_that_is_taken_back_cuts_an_answer_that_is_under_way() {
    let world = Arc::new(World::default());
    let (at, _) =
        servers::scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello").await;
    world.put("good.com", "203.0.113.1", 80, at);
    let stage = Stage::new(&world, &["good.com"], &[]);
    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    let request = b"GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
    stream.write_all(request).await.unwrap();
    assert!(ways::read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).await.unwrap();
    stage.gateway.replace_rules(rules(&[], &[]));
    assert!(is_over(&mut stream).await);
}
