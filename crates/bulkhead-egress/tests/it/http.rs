//! Requests in the clear, read so that nobody could read them otherwise.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers::{Web, scripted},
    stage::{Stage, World},
    ways::{self, Way, raw_http, read_head},
};

async fn good() -> (Stage, Web) {
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("good.com", "203.0.113.1", 80, web.plain().await);
    world.put("also.com", "203.0.113.2", 80, web.plain().await);
    (Stage::new(&world, &["good.com", "also.com", "http://good.com:8080"], &[]), web)
}

/// Row D12.
#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused() {
    let (stage, web) = good().await;
    let start = "POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\n";
    let bad = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "Content-Length: 5, 5\r\n\r\nhello",
        "Content-Length: +5\r\n\r\nhello",
        "Content-Length: 0x5\r\n\r\nhello",
        "Content-Length: \r\n\r\n",
        "Content-Length: 99999999999999999999\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content.Length: 5\r\n\r\nhello",
        "X: a\r\n b\r\n\r\n",
        "X: a\nY: b\r\n\r\n",
        "X: a\rY: b\r\n\r\n",
        "X\r\n\r\n",
        ": x\r\n\r\n",
        "X: a\0b\r\n\r\n",
        "Host: good.com\r\n\r\n",
        "Connection: host\r\n\r\n",
        "Connection: close, Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    ];
    for rest in bad {
        let said = raw_http(&stage, format!("{start}{rest}").as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{rest:?}: {said}");
    }
    let heads: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: good.com\r\n\r\n",
        b"GET https://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n",
        b"GET http://good.com/ HTTP/1.1\r\n\r\n",
        b"GET http://good.com/ HTTP/2.0\r\nHost: good.com\r\n\r\n",
        b"GET http://good.com/ HTTP/1.1 \r\nHost: good.com\r\n\r\n",
        b"GET http://good.com/\x7f HTTP/1.1\r\nHost: good.com\r\n\r\n",
        b"\r\nGET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n ",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for head in heads {
        let said = raw_http(&stage, head).await;
        let text = String::from_utf8_lossy(head);
        assert!(said.starts_with("HTTP/1.1 400"), "{text}: {said}");
    }
    // What was cut off in its body never counts as whole.
    assert!(web.heard().iter().all(|it| it.body == "cut off" || it.body.is_empty()));
}

/// Rows D6 and D11.
#[tokio::test]
async fn each_request_is_judged_and_must_name_its_host() {
    let (stage, web) = good().await;
    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    for (host, expected) in
        [("good.com", "200"), ("also.com", "200"), ("good.com", "200"), ("evil.com", "403")]
    {
        let request = format!("GET http://{host}/a HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{host}: {head}");
        let length = head.split("content-length: ").nth(1);
        let length = length.map_or(0, |it| it.split("\r\n").next().unwrap().parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
    }
    assert_eq!(web.heard().len(), 3);
    for host in ["evil.com", "good.com:8080", "", "good.com:80@x", "a b"] {
        let request = format!(
            "GET http://good.com/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        let said = raw_http(&stage, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 421"), "{host}: {said}");
    }
    // Transparently, the address says who is meant, and the Host must agree.
    let address = ways::resolve(&stage, "good.com").unwrap();
    for (host, expected) in [("good.com", "200"), ("also.com", "421")] {
        let mut stream = ways::transparent(&stage, (address, 80).into()).await;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{host}: {head}");
    }
}

#[tokio::test]
async fn what_is_between_neighbours_goes_no_further() {
    let (stage, web) = good().await;
    let request = "POST http://good.com/x?y=z HTTP/1.1\r\nHost: GOOD.com\r\nConnection: close, X-Mine\r\n\
        X-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: x\r\n\
        TE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\nkeep_alive: 1\r\nX-Kept: yes\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n yo\r\n0\r\nX-Trailer: evil\r\n\r\n";
    let said = raw_http(&stage, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    let heard = web.heard().remove(0);
    assert_eq!(heard.line, "POST /x?y=z HTTP/1.1");
    assert_eq!(heard.body, "hello yo");
    let mut names: Vec<_> = heard.headers.keys().map(|it| it.as_str().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["host", "transfer-encoding", "x-kept"]);
    assert_eq!(heard.headers["host"], "good.com");
}

#[tokio::test]
async fn bodies_pass_by_length_and_after_a_hundred_continue() {
    let (stage, web) = good().await;
    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    let head = "PUT http://good.com/f HTTP/1.1\r\nHost: good.com\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&vec![b'x'; 300_000]).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert_eq!(web.heard()[0].body.len(), 300_000);
    assert_eq!(web.heard()[0].headers["content-length"], "300000");
}

/// Row D21.
#[tokio::test]
async fn a_head_has_an_end_and_a_deadline() {
    let (stage, _) = good().await;
    let long = format!(
        "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\nX: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    assert!(raw_http(&stage, long.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let many = "X: y\r\n".repeat(200);
    let many = format!("GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n{many}\r\n");
    assert!(raw_http(&stage, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let mut slow = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    slow.write_all(b"GET http://good.com/ HT").await.unwrap();
    assert!(ways::is_over(&mut slow).await);
}

/// Row D24, the part that needs no secret.
#[tokio::test]
async fn trace_is_not_passed_on() {
    let (stage, web) = good().await;
    let said =
        raw_http(&stage, b"TRACE http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
    assert!(web.heard().is_empty());
}

/// Row D13: CVE-2026-2833 was a proxy that tunnelled before upstream had agreed.
#[tokio::test]
async fn a_websocket_begins_when_upstream_says_so() {
    let world = Arc::new(World::default());
    let (agrees, notes) = scripted(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Accept: x\r\n\r\nwelcome",
    )
    .await;
    let (refuses, ignored) = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").await;
    world.put("good.com", "203.0.113.1", 80, agrees);
    world.put("also.com", "203.0.113.2", 80, refuses);
    let stage = Stage::new(&world, &["good.com", "also.com"], &[]);
    let request = |host: &str| {
        format!(
            "GET http://{host}/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: k\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
        )
    };
    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    stream.write_all(request("good.com").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("sec-websocket-accept: x"));
    let mut welcome = [0; 7];
    stream.read_exact(&mut welcome).await.unwrap();
    assert_eq!(&welcome, b"welcome");
    stream.write_all(b"ping").await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(5), async {
        while !notes.lock().unwrap().concat().ends_with("ping") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(notes.lock().unwrap()[0].contains("upgrade: websocket"));

    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    stream.write_all(request("also.com").as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    let mut rest = Vec::new();
    drop(
        tokio::time::timeout(std::time::Duration::from_secs(5), stream.read_to_end(&mut rest))
            .await,
    );
    assert!(!ignored.lock().unwrap().concat().contains("evil"));
}

#[tokio::test]
async fn an_odd_answer_of_a_host_is_not_passed_on() {
    let world = Arc::new(World::default());
    let (at, _) =
        scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nhello")
            .await;
    world.put("good.com", "203.0.113.1", 80, at);
    let (at, _) = scripted(
        b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\n\r\nuntil the end",
    )
    .await;
    world.put("also.com", "203.0.113.2", 80, at);
    let stage = Stage::new(&world, &["good.com", "also.com"], &[]);
    let get = |host: &str| {
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    };
    assert!(raw_http(&stage, get("good.com").as_bytes()).await.starts_with("HTTP/1.1 502"));
    let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
    stream.write_all(get("also.com").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.contains("x-kept: 2") && !head.contains("x-hop"), "{head}");
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
}

/// A method and a path can be ruled on in the clear as well.
#[tokio::test]
async fn rules_about_requests_hold_in_the_clear() {
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("good.com", "203.0.113.1", 80, web.plain().await);
    let stage = Stage::new(&world, &["GET http://good.com/a/**"], &[]);
    let cases = [
        ("GET", "/a/b", "200"),
        ("POST", "/a/b", "403"),
        ("GET", "/b", "403"),
        ("GET", "/a/../b", "403"),
        ("GET", "/a/%2e%2e/b", "403"),
        ("GET", "/a/b?c=/../d", "200"),
        ("GET", "/a//b", "403"),
    ];
    for (method, path, expected) in cases {
        let request = format!(
            "{method} http://good.com{path} HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n"
        );
        let said = raw_http(&stage, request.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {expected}")), "{method} {path}: {said}");
        let mut stream = ways::reach(&stage, Way::Connect, "good.com", 80).await.stream();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let said = read_head(&mut stream).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {expected}")), "{method} {path}: {said}");
    }
}

/// Row D6: the tunnel and the Host that asks for it.
#[tokio::test]
async fn a_tunnel_and_its_host_header_agree() {
    let (stage, _) = good().await;
    for (host, expected) in
        [("good.com:80", "200"), ("good.com", "200"), ("also.com:80", "421")]
    {
        let mut stream = tokio::net::TcpStream::connect(stage.http).await.unwrap();
        let request = format!("CONNECT good.com:80 HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let said = read_head(&mut stream).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {expected}")), "{host}: {said}");
    }
}
