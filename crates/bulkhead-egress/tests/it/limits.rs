//! How much may pass.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use bulkhead_egress::GatewayPlan;
use bulkhead_spec::{Bytes, EgressLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers::{self, Web},
    stage::{Stage, World, plan, rules},
    ways::{self, Reached, TUNNELS, Way, is_over, reach},
};

async fn stage(limits: EgressLimits) -> Stage {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 9000, servers::echo("hello").await);
    world.put("good.com", "203.0.113.1", 80, Web::default().plain().await);
    let rules = rules(&["good.com", "good.com:9000"], &[]);
    Stage::with(&world, GatewayPlan { rules, limits, ..plan() })
}

#[tokio::test]
async fn so_many_connections_at_once_and_no_more() {
    let stage = stage(EgressLimits { connections: Some(2), ..EgressLimits::default() }).await;
    let mut first = reach(&stage, Way::Connect, "good.com", 9000).await.stream();
    let second = reach(&stage, Way::SocksName, "good.com", 9000).await.stream();
    let third = ways::connect(&stage, "good.com:9000").await.refusal();
    assert!(third.starts_with("HTTP/1.1 429"), "{third}");
    drop(second);
    first.write_all(b"x").await.unwrap();
    // A place is free as soon as the gateway has noticed.
    let freed = async {
        while matches!(ways::connect(&stage, "good.com:9000").await, Reached::No(_)) {}
    };
    tokio::time::timeout(std::time::Duration::from_secs(5), freed).await.unwrap();
}

#[tokio::test]
async fn so_many_bytes_and_no_more() {
    for way in TUNNELS {
        let limits = EgressLimits { up: Some(Bytes(100_000)), ..EgressLimits::default() };
        let stage = stage(limits).await;
        let mut stream = reach(&stage, way, "good.com", 9000).await.stream();
        let (mut from, mut to) = stream.split();
        let say = async { drop(to.write_all(&vec![0; 4_000_000]).await) };
        let mut heard = Vec::new();
        let ((), _) = tokio::join!(say, from.read_to_end(&mut heard));
        assert!(heard.len() < 2_000_000, "{way:?}: {}", heard.len());
        match reach(&stage, way, "good.com", 9000).await {
            Reached::No(_) => {}
            Reached::Stream(mut stream) => assert!(is_over(&mut stream).await, "{way:?}"),
        }
    }
}

#[tokio::test]
async fn so_many_bytes_of_a_request_and_no_more() {
    let stage = stage(EgressLimits { up: Some(Bytes(1000)), ..EgressLimits::default() }).await;
    let head =
        "POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nContent-Length: 100000\r\n\r\n";
    let request = [head.as_bytes(), &vec![b'x'; 100_000]].concat();
    let said = ways::raw_http(&stage, &request).await;
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
}

#[tokio::test]
async fn so_many_requests_and_no_more() {
    let stage = stage(EgressLimits { requests: Some(3), ..EgressLimits::default() }).await;
    let get = b"GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
    for _ in 0..3 {
        assert!(ways::raw_http(&stage, get).await.starts_with("HTTP/1.1 200"));
    }
    let said = ways::raw_http(&stage, get).await;
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
    assert!(said.contains("no more requests may be made"), "{said}");
    assert_eq!(stage.gateway.usage().requests, 3);
}

/// Row D21: for somebody who does not read, no more is taken from a host than the kernel's buffers
/// and ours hold.
#[tokio::test]
async fn for_who_does_not_read_nothing_is_read() {
    let world = Arc::new(World::default());
    let (raw, taken) = servers::endless("hello").await;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
    let (web, from_web) = servers::endless(head).await;
    world.put("good.com", "203.0.113.1", 9000, raw);
    world.put("good.com", "203.0.113.1", 80, web);
    let stage = Stage::new(&world, &["http://good.com", "good.com:9000"], &[]);
    for way in TUNNELS {
        let stream = reach(&stage, way, "good.com", 9000).await.stream();
        stalls(&taken, &format!("{way:?}")).await;
        drop(stream);
        let mut stream = reach(&stage, way, "good.com", 80).await.stream();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: good.com\r\n\r\n").await.unwrap();
        stalls(&from_web, &format!("{way:?}, HTTP")).await;
    }
}

/// Waits until no more is taken, which must be so before long.
async fn stalls(taken: &AtomicUsize, what: &str) {
    let (start, mut before) = (taken.load(Relaxed), 0);
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let now = taken.load(Relaxed) - start;
        assert!(now < 64 << 20, "{what}: {now}");
        if now != 0 && now == before {
            return;
        }
        before = now;
    }
}

/// Row D21: a crowd that says nothing is turned away, and does not keep others out for long.
#[tokio::test]
async fn a_crowd_that_says_nothing_is_turned_away() {
    let stage = stage(EgressLimits { connections: Some(8), ..EgressLimits::default() }).await;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        // Some are turned away before they know that they were let in.
        crowd.extend(tokio::net::TcpStream::connect(stage.http).await);
    }
    for stream in &mut crowd {
        assert!(is_over(stream).await);
    }
    let get = b"GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
    assert!(ways::raw_http(&stage, get).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_tunnel_where_nothing_happens_ends() {
    let world = Arc::new(World::default());
    world.put("good.com", "203.0.113.1", 9000, servers::echo("hello").await);
    let mut plan = GatewayPlan { rules: rules(&["good.com:9000"], &[]), ..plan() };
    plan.timings.idle = std::time::Duration::from_millis(200);
    let stage = Stage::with(&world, plan);
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "good.com", 9000).await.stream();
        assert!(is_over(&mut stream).await, "{way:?}");
    }
}
