//! Out by way of the proxy that stands before the host.

use std::sync::Arc;

use bulkhead_egress::{GatewayPlan, ProxyAddress, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers,
    stage::{Stage, World, plan, rules},
    ways::{TUNNELS, reach},
};

#[tokio::test]
async fn the_proxy_of_the_host_is_asked_for_what_is_not_direct() {
    let (proxy, heard) =
        servers::scripted(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello by proxy").await;
    let world = Arc::new(World::default());
    world.put("near.corp.com", "203.0.113.2", 9000, servers::echo("hello direct").await);
    let upstream = Upstream {
        proxy: Some(format!("http://me:pw@{proxy}").parse().unwrap()),
        direct: vec![".corp.com".to_owned()],
        roots: Vec::new(),
        files: Vec::new(),
    };
    let rules = rules(&["far.com:9000", "near.corp.com:9000"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, upstream, ..plan() });
    for way in TUNNELS {
        let mut stream = reach(&stage, way, "far.com", 9000).await.stream();
        let mut greeting = [0; 14];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"hello by proxy", "{way:?}");
        stream.write_all(b"x").await.unwrap();
        let mut stream = reach(&stage, way, "near.corp.com", 9000).await.stream();
        let mut greeting = [0; 12];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"hello direct", "{way:?}");
    }
    let asked = heard.lock().unwrap()[0].clone();
    let expected = "CONNECT far.com:9000 HTTP/1.1\r\nHost: far.com:9000\r\n\
                    Proxy-Authorization: Basic bWU6cHc=\r\n\r\n";
    assert_eq!(asked, expected);
    assert!(!stage.asked().contains(&"far.com".to_owned()));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_no_way_out() {
    let (proxy, _) = servers::scripted(b"HTTP/1.1 407 No\r\n\r\n").await;
    let world = Arc::new(World::default());
    let upstream =
        Upstream { proxy: Some(proxy.to_string().parse().unwrap()), ..Upstream::default() };
    let rules = rules(&["far.com:9000"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, upstream, ..plan() });
    let said = crate::ways::connect(&stage, "far.com:9000").await.refusal();
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
}

#[test]
fn an_address_of_a_proxy_is_read_and_its_password_not_said() {
    let proxy: ProxyAddress = "http://user:secret@proxy.corp.com:3128/".parse().unwrap();
    assert_eq!(proxy.to_string(), "proxy.corp.com:3128");
    assert!(!format!("{proxy:?}").contains("secret"));
    let error = "socks5://user:secret@x:1".parse::<ProxyAddress>().unwrap_err();
    assert!(!error.to_string().contains("secret"));
}

#[tokio::test]
async fn plain_requests_are_told_to_the_proxy_whole() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let (proxy, notes) = servers::scripted(answer).await;
    let world = Arc::new(World::default());
    let proxy = format!("http://me:pw@{proxy}").parse().unwrap();
    let upstream = Upstream { proxy: Some(proxy), ..Upstream::default() };
    let rules = rules(&["far.com"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, upstream, ..plan() });
    let request =
        b"GET http://far.com/x?y HTTP/1.1\r\nHost: far.com\r\nConnection: close\r\n\r\n";
    let said = crate::ways::raw_http(&stage, request).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let asked = notes.lock().unwrap()[0].clone();
    assert!(asked.starts_with("GET http://far.com/x?y HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("host: far.com\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic bWU6cHc=\r\n"), "{asked}");
}
