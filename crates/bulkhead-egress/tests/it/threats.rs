//! Names and addresses that must not get out, on every way.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use crate::{
    servers::{self, Web},
    stage::{Stage, World},
    ways::{self, ALL, Reached, TUNNELS, Way, reach},
};

/// Tries to reach `host` and `port` by `way`, and says whether anything came of it.
async fn gets_through(stage: &Stage, way: Way, host: &str, port: u16) -> bool {
    if way == Way::Absolute {
        let authority = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
        let request = format!(
            "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        );
        return ways::raw_http(stage, request.as_bytes()).await.starts_with("HTTP/1.1 200");
    }
    match reach(stage, way, host, port).await {
        Reached::No(_) => false,
        Reached::Stream(mut stream) => {
            let request =
                format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            if stream.write_all(request.as_bytes()).await.is_err() {
                return false;
            }
            ways::read_head(&mut stream).await.starts_with("HTTP/1.1 200")
        }
    }
}

async fn world() -> (Arc<World>, Web) {
    let world = Arc::new(World::default());
    let web = Web::default();
    let at = web.plain().await;
    world.put("good.com", "203.0.113.1", 80, at);
    world.put("www.good.com", "203.0.113.2", 80, at);
    world.put("evil.com", "203.0.113.66", 80, at);
    (world, web)
}

#[tokio::test]
async fn an_allowed_host_is_reached_by_every_way() {
    let (world, web) = world().await;
    let stage = Stage::new(&world, &["http://good.com"], &[]);
    for (at, way) in ALL.into_iter().enumerate() {
        assert!(gets_through(&stage, way, "good.com", 80).await, "{way:?}");
        assert_eq!(web.heard().len(), at + 1, "{way:?}");
    }
    assert!(stage.denied().is_empty());
}

/// Rows D1, D9, D10, D18, D19: what no rule allows is refused, the same by every way.
#[tokio::test]
async fn what_no_rule_allows_is_refused_by_every_way() {
    let (world, web) = world().await;
    let stage = Stage::new(&world, &["good.com"], &["www.good.com"]);
    for way in ALL {
        assert!(!gets_through(&stage, way, "evil.com", 80).await, "{way:?}");
        assert!(!gets_through(&stage, way, "www.good.com", 80).await, "{way:?}");
    }
    assert!(web.heard().is_empty());
    assert!(stage.dialled().is_empty());
    // Row D15: not even as a question for the name.
    assert!(stage.asked().is_empty());
}

/// Row D9: where a host sends a program is told to the program, which must ask for it anew.
#[tokio::test]
async fn nobody_follows_a_redirect_for_a_program() {
    let (world, web) = world().await;
    let stage = Stage::new(&world, &["http://good.com"], &[]);
    for way in ALL {
        let moved = http::Response::builder()
            .status(302)
            .header("location", "http://evil.com/taken")
            .body(http_body_util::Full::default())
            .unwrap();
        web.answer(moved);
        let said = if way == Way::Absolute {
            let get =
                "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
            ways::raw_http(&stage, get.as_bytes()).await
        } else {
            let mut stream = reach(&stage, way, "good.com", 80).await.stream();
            let get = "GET / HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
            stream.write_all(get.as_bytes()).await.unwrap();
            ways::read_head(&mut stream).await
        };
        assert!(said.starts_with("HTTP/1.1 302"), "{way:?} {said}");
        assert!(said.to_lowercase().contains("location: http://evil.com/taken"), "{said}");
        assert!(!gets_through(&stage, way, "evil.com", 80).await, "{way:?}");
    }
    assert_eq!(web.heard().len(), ALL.len());
    assert!(!stage.asked().contains(&"evil.com".to_owned()));
}

/// Row D2: addresses in every spelling.
#[tokio::test]
async fn addresses_are_refused_unless_they_are_listed() {
    let (world, web) = world().await;
    let stage = Stage::new(&world, &["good.com", "203.0.113.0/28:8080"], &[]);
    let spellings = [
        "203.0.113.66",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:203.0.113.66]",
        "[64:ff9b::cb00:7142]",
        "[2002:cb00:7142::1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "[fe80::1]",
        "localhost",
        "203.0.113.1",
    ];
    for host in spellings {
        for way in ALL {
            assert!(!gets_through(&stage, way, host, 80).await, "{host} {way:?}");
        }
    }
    assert!(web.heard().is_empty());
    assert!(stage.dialled().is_empty());
    assert!(stage.asked().is_empty());
}

#[tokio::test]
async fn a_listed_address_is_reached_by_every_tunnel() {
    let (world, _) = world().await;
    world.put("x", "203.0.113.5", 8080, servers::echo("hello ").await);
    world.put("x", "10.1.2.3", 8080, servers::echo("hello ").await);
    let stage = Stage::new(&world, &["203.0.113.0/28:8080", "10.1.2.3:8080"], &[]);
    for way in TUNNELS {
        for host in ["203.0.113.5", "10.1.2.3"] {
            let mut stream = reach(&stage, way, host, 8080).await.stream();
            let mut greeting = [0; 6];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut greeting).await.unwrap();
            assert_eq!(&greeting, b"hello ", "{way:?} {host}");
        }
    }
}

/// Row D3: characters that two readers take for different hosts.
#[tokio::test]
async fn odd_names_are_refused_by_every_way() {
    let (world, web) = world().await;
    let stage = Stage::new(&world, &["good.com"], &[]);
    let names: [&[u8]; 12] = [
        b"good.com\0.evil.com",
        b"evil.com#good.com",
        b"good.com@evil.com",
        b"good.com%2eevil.com",
        b"good.com\\evil.com",
        b"good.com/evil.com",
        b"good.com%00",
        b"fe80::1%good.com",
        b"good..com",
        b"-good.com",
        b"g\xc3\xb6\xc3\xb6d.com",
        b"good.com:80@evil.com",
    ];
    for name in names {
        assert!(matches!(ways::socks_name(&stage, name, 80).await, Reached::No(_)), "{name:?}");
        let text = String::from_utf8_lossy(name).into_owned();
        let Reached::No(said) = ways::connect(&stage, &format!("{text}:443")).await else {
            panic!("{text}");
        };
        assert!(said.starts_with("HTTP/1.1 40"), "{said}");
        let request = format!("GET http://{text}/ HTTP/1.1\r\nHost: {text}\r\n\r\n");
        let said = ways::raw_http(&stage, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 4"), "{text}: {said}");
    }
    assert!(web.heard().is_empty());
    assert!(stage.dialled().is_empty());
}

/// Row D4.
#[tokio::test]
async fn names_are_compared_in_one_spelling() {
    let (world, _) = world().await;
    let stage =
        Stage::new(&world, &["http://GOOD.com", "http://*.good.com"], &["www.good.com"]);
    for way in ALL {
        assert!(gets_through(&stage, way, "Good.Com", 80).await, "{way:?}");
        assert!(gets_through(&stage, way, "good.com.", 80).await, "{way:?}");
        for host in [
            "WWW.good.com",
            "www.good.com.",
            "notgood.com",
            "good.com.evil.com",
            "a.b.good.com",
        ] {
            assert!(!gets_through(&stage, way, host, 80).await, "{host} {way:?}");
        }
    }
}

/// Row D5: one lookup, all of its addresses looked at, and one of them dialled.
#[tokio::test]
async fn a_name_that_leads_to_a_wrong_address_is_refused_by_every_way() {
    let (world, web) = world().await;
    world.name("private.com", &["10.0.0.1"]);
    world.name("mixed.com", &["203.0.113.1", "127.0.0.1"]);
    world.name("mapped.com", &["::ffff:127.0.0.1"]);
    world.name("nat64.com", &["64:ff9b::7f00:1"]);
    world.name("sixtofour.com", &["2002:7f00:1::1"]);
    world.name("metadata.com", &["169.254.169.254"]);
    world.name("own.com", &["203.0.113.99"]);
    let bad = [
        "private.com",
        "mixed.com",
        "mapped.com",
        "nat64.com",
        "sixtofour.com",
        "metadata.com",
        "own.com",
        "unknown.com",
    ];
    let allow: Vec<_> = bad.iter().copied().chain(["good.com"]).collect();
    let stage = Stage::new(&world, &allow, &[]);
    for host in bad {
        for way in ALL {
            assert!(!gets_through(&stage, way, host, 80).await, "{host} {way:?}");
        }
    }
    assert!(stage.dialled().is_empty());
    assert!(web.heard().is_empty());
    world.asked.lock().unwrap().clear();
    assert!(gets_through(&stage, Way::Absolute, "good.com", 80).await);
    assert_eq!(stage.asked(), ["good.com"]);
}

/// Row D8.
#[tokio::test]
async fn other_ports_need_a_rule_of_their_own() {
    let (world, _) = world().await;
    world.put("good.com", "203.0.113.1", 22, servers::echo("SSH-2.0-x").await);
    let stage = Stage::new(&world, &["good.com", "good.com:22"], &[]);
    for way in TUNNELS {
        for port in [25, 2375, 6443, 8080] {
            match reach(&stage, way, "good.com", port).await {
                Reached::No(_) => {}
                Reached::Stream(mut stream) => assert!(ways::is_over(&mut stream).await),
            }
        }
        let mut stream = reach(&stage, way, "good.com", 22).await.stream();
        let mut banner = [0; 9];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut banner).await.unwrap();
        assert_eq!(&banner, b"SSH-2.0-x", "{way:?}");
    }
}

/// Row D16.
#[tokio::test]
async fn metadata_services_stay_shut_whatever_is_allowed() {
    let (world, _) = world().await;
    world.put("metadata.google.internal", "203.0.113.1", 80, servers::echo("").await);
    let stage = Stage::new(
        &world,
        &["metadata.google.internal", "169.254.169.254", "169.254.0.0/16", "0.0.0.0/0"],
        &[],
    );
    for way in ALL {
        for host in ["metadata.google.internal", "169.254.169.254", "[fd00:ec2::254]"] {
            assert!(!gets_through(&stage, way, host, 80).await, "{host} {way:?}");
        }
    }
    assert!(stage.dialled().is_empty());
}

/// Row D20, and the one way to a service of the host.
#[tokio::test]
async fn the_host_is_reached_by_its_name_only_and_never_its_gateway() {
    let world = Arc::new(World::default());
    let service = servers::echo("pg ").await;
    let port = service.port();
    let rule = format!("host.bulkhead.internal:{port}");
    let stage = Stage::new(&world, &[&rule, "127.0.0.0/8", "**.bulkhead.internal"], &[]);
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "host.bulkhead.internal", port).await.stream();
        let mut greeting = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut greeting).await.unwrap();
        assert_eq!(&greeting, b"pg ", "{way:?}");
        assert!(!gets_through(&stage, way, "127.0.0.1", port).await);
        assert!(!gets_through(&stage, way, "localhost", port).await);
        assert!(!gets_through(&stage, way, "host.bulkhead.internal", 80).await);
    }
}

#[tokio::test]
async fn a_socket_of_ours_on_the_host_is_out_of_reach() {
    let world = Arc::new(World::default());
    let service = servers::echo("control").await;
    let rule = format!("host.bulkhead.internal:{}", service.port());
    let plan = bulkhead_egress::GatewayPlan {
        rules: crate::stage::rules(&[&rule], &[]),
        own: vec![service],
        ..crate::stage::plan()
    };
    let stage = Stage::with(&world, plan);
    for way in [Way::Connect, Way::SocksName] {
        let reached = reach(&stage, way, "host.bulkhead.internal", service.port()).await;
        assert!(matches!(reached, Reached::No(_)), "{way:?}");
    }
}

/// A refusal says what it is, what would help, and that trying again does not.
#[tokio::test]
async fn a_refusal_can_be_read() {
    let (world, _) = world().await;
    let stage = Stage::new(&world, &["good.com"], &["www.good.com"]);
    let said = ways::connect(&stage, "evil.com:8443").await.refusal();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"));
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "error": "bulkhead does not let this sandbox reach this host",
            "host": "evil.com",
            "port": 8443,
            "rule": "no rule",
            "allow_with": "--allow 'evil.com:8443'",
            "retry": false,
        })
    );
    let said = ways::raw_http(
        &stage,
        b"GET http://www.good.com/ HTTP/1.1\r\nHost: www.good.com\r\n\r\n",
    )
    .await;
    assert!(said.contains("\"rule\":\"denied by `www.good.com` (--deny)\""), "{said}");
    for _ in 0..3 {
        ways::connect(&stage, "evil.com:8443").await.refusal();
    }
    assert_eq!(
        stage.denied(),
        [("evil.com".to_owned(), 8443), ("www.good.com".to_owned(), 80)]
    );
    let usage = stage.gateway.usage();
    assert_eq!(usage.denied[0].times, 4);
    assert_eq!(usage.denied[0].allow_with.as_deref(), Some("evil.com:8443"));
}
