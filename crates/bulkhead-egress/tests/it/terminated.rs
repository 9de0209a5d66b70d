//! Hosts whose requests are read.

use std::sync::Arc;

use bulkhead_egress::{GatewayPlan, Upstream};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    servers::{Pki, Web, tls},
    stage::{Stage, World, plan, rules},
    ways::{TUNNELS, Way, reach, read_head},
};

/// A plan that knows the certificate authority of the world.
pub(crate) fn trusting(pki: &Pki) -> GatewayPlan {
    let upstream = Upstream { roots: vec![pki.pem.clone()], ..Upstream::default() };
    GatewayPlan { upstream, ..plan() }
}

/// Sends one request over TLS that ends at the gateway, and returns head and body.
pub(crate) async fn say(stage: &Stage, way: Way, host: &str, request: &str) -> String {
    let stream = reach(stage, way, host, 443).await.stream();
    let pem = stage.gateway.certificate().unwrap().to_owned();
    let mut stream = tls(stream, &pem, host, &["http/1.1"]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    drop(
        tokio::time::timeout(std::time::Duration::from_secs(10), reading)
            .await
            .expect("an end"),
    );
    String::from_utf8_lossy(&answer).into_owned()
}

/// An HTTP/2 client inside.
pub(crate) async fn many<B>(
    stage: &Stage,
    host: &str,
) -> hyper::client::conn::http2::SendRequest<B>
where
    B: hyper::body::Body<Data = Bytes, Error = std::convert::Infallible>,
    B: Send + Unpin + 'static,
{
    let stream = reach(stage, Way::Transparent, host, 443).await.stream();
    let pem = stage.gateway.certificate().unwrap().to_owned();
    let stream = tls(stream, &pem, host, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn github() -> (Stage, Web) {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("api.good.com", "203.0.113.1", 443, web.secure(&pki, "api.good.com").await);
    world.put("other.com", "203.0.113.2", 443, web.secure(&pki, "other.com").await);
    let rules = rules(
        &["GET,POST https://api.good.com/repos/me/**", "other.com"],
        &["POST https://api.good.com/repos/me/delete/**"],
    );
    (Stage::with(&world, GatewayPlan { rules, ..trusting(&pki) }), web)
}

#[tokio::test]
async fn an_authority_in_a_file_is_believed_and_a_file_that_is_not_there_vouches_for_nobody() {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("good.com", "203.0.113.1", 443, web.secure(&pki, "good.com").await);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &pki.pem).unwrap();
    for (files, wanted) in [
        (vec!["/nowhere.pem".into(), file.path().to_owned()], "200"),
        (vec!["/nowhere.pem".into()], "502"),
    ] {
        let upstream = Upstream { files, ..Upstream::default() };
        let rules = rules(&["GET https://good.com/**"], &[]);
        let stage = Stage::with(&world, GatewayPlan { rules, upstream, ..plan() });
        let request = "GET / HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
        let answer = say(&stage, Way::Transparent, "good.com", request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{answer}");
    }
}

/// Rows D22 and D23.
#[tokio::test]
async fn requests_are_judged_by_method_and_path_by_every_way() {
    let (stage, web) = github().await;
    let cases = [
        ("GET", "/repos/me/x", "200"),
        ("POST", "/repos/me/x", "200"),
        ("DELETE", "/repos/me/x", "403"),
        ("GET", "/repos/you/x", "403"),
        ("GET", "/repos/me/%2e%2e/you", "403"),
        ("GET", "/repos/me/..%2fyou", "403"),
        ("GET", "/repos/me//you", "403"),
        ("POST", "/repos/me/delete/x", "403"),
        ("TRACE", "/repos/me/x", "405"),
    ];
    for way in TUNNELS {
        for (method, path, expected) in cases {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: api.good.com\r\nConnection: close\r\n\r\n"
            );
            let said = say(&stage, way, "api.good.com", &request).await;
            assert!(
                said.starts_with(&format!("HTTP/1.1 {expected}")),
                "{way:?} {method} {path}: {said}"
            );
        }
    }
    assert_eq!(web.heard().len(), 2 * TUNNELS.len());
    let denied = stage.gateway.usage().denied;
    assert_eq!(denied[0].host, "api.good.com");
}

#[tokio::test]
async fn only_what_must_be_read_is_read() {
    let (stage, _) = github().await;
    let stream = reach(&stage, Way::Connect, "other.com", 443).await.stream();
    let pem = stage.gateway.certificate().unwrap().to_owned();
    // Its certificate is its own, which the sandbox's authority has not signed.
    assert!(tls(stream, &pem, "other.com", &[]).await.is_err());
}

/// Row D6, inside of TLS.
#[tokio::test]
async fn the_name_inside_must_be_the_name_outside() {
    let (stage, web) = github().await;
    let request = "GET /repos/me/x HTTP/1.1\r\nHost: other.com\r\nConnection: close\r\n\r\n";
    let said = say(&stage, Way::Connect, "api.good.com", request).await;
    assert!(said.starts_with("HTTP/1.1 421"), "{said}");
    let mut sender = many(&stage, "api.good.com").await;
    for (uri, host, expected) in [
        ("https://api.good.com/repos/me/x", None, 200),
        ("https://other.com/repos/me/x", None, 421),
        ("https://api.good.com:444/repos/me/x", None, 421),
        ("https://api.good.com/repos/me/x", Some("other.com"), 421),
        ("https://api.good.com/repos/you/x", None, 403),
    ] {
        let mut request = Request::get(uri).version(Version::HTTP_2);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let response =
            sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{uri} {host:?}");
    }
    assert_eq!(web.heard().len(), 1);
}

#[tokio::test]
async fn many_requests_go_over_one_connection_of_either_version() {
    let (stage, web) = github().await;
    let sender = many(&stage, "api.good.com").await;
    let asks = (0..20).map(|at| {
        let mut sender = sender.clone();
        async move {
            let uri = format!("https://api.good.com/repos/me/{at}");
            let body = Full::from(format!("body {at}"));
            let response =
                sender.send_request(Request::post(uri).body(body).unwrap()).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.ends_with(format!("|body {at}").as_bytes()), "{body:?}");
        }
    });
    futures_util::future::join_all(asks).await;
    assert_eq!(web.heard().len(), 20);
    assert!(web.heard()[0].line.ends_with("HTTP/2.0"), "{}", web.heard()[0].line);

    let stream = reach(&stage, Way::SocksName, "api.good.com", 443).await.stream();
    let pem = stage.gateway.certificate().unwrap().to_owned();
    let mut stream = tls(stream, &pem, "api.good.com", &["http/1.1"]).await.unwrap();
    for _ in 0..5 {
        stream
            .write_all(b"GET /repos/me/k HTTP/1.1\r\nHost: api.good.com\r\n\r\n")
            .await
            .unwrap();
        let head = read_head(&mut stream).await;
        let length: usize = head
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .split("\r\n")
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
    }
    assert_eq!(web.heard().len(), 25);
    assert_eq!(stage.gateway.usage().requests, 25);
}

#[tokio::test]
async fn a_host_that_cannot_prove_who_it_is_gets_nothing() {
    let (honest, forger) = (Pki::new(), Pki::new());
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("api.good.com", "203.0.113.1", 443, web.secure(&forger, "api.good.com").await);
    let rules = rules(&["GET https://api.good.com/x"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, ..trusting(&honest) });
    let request = "GET /x HTTP/1.1\r\nHost: api.good.com\r\nConnection: close\r\n\r\n";
    let said = say(&stage, Way::Connect, "api.good.com", request).await;
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
    assert!(said.contains("did not prove who it is"), "{said}");
    assert!(web.heard().is_empty());
}

/// Who gets an answer before everything was sent may send the rest: a client whose stream is cut
/// off reports that, and not the answer (curl: error 92).
#[tokio::test]
async fn a_refusal_is_heard_by_who_is_still_sending() {
    let (honest, forger) = (Pki::new(), Pki::new());
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put("api.good.com", "203.0.113.1", 443, web.secure(&forger, "api.good.com").await);
    let rules = rules(&["POST https://api.good.com/x"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, ..trusting(&honest) });
    for (path, status, why) in
        [("/x", 502, "did not prove who it is"), ("/y", 403, "\"retry\":false")]
    {
        let (pieces, body) = tokio::sync::mpsc::channel::<Bytes>(1);
        let mut sender = many(&stage, "api.good.com").await;
        let request = Request::post(format!("https://api.good.com{path}"));
        let answer = sender.send_request(request.body(Slowly(body)).unwrap());
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), status);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&text).contains(why), "{text:?}");
        for _ in 0..64 {
            pieces.send(Bytes::from_static(&[b'x'; 8 << 10])).await.unwrap();
        }
    }
}

/// A body that comes in pieces.
struct Slowly(tokio::sync::mpsc::Receiver<Bytes>);

impl hyper::body::Body for Slowly {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|it| it.map(|it| Ok(hyper::body::Frame::data(it))))
    }
}

#[tokio::test]
async fn a_rule_that_needs_reading_later_says_that_it_cannot_be_held() {
    let world = Arc::new(World::default());
    let pki = Pki::new();
    let web = Web::default();
    world.put("api.good.com", "203.0.113.1", 443, web.secure(&pki, "api.good.com").await);
    let stage = Stage::new(&world, &["other.com"], &[]);
    stage.gateway.replace_rules(rules(&["GET https://api.good.com/x"], &[]));
    let stream = reach(&stage, Way::Connect, "api.good.com", 443).await.stream();
    assert!(tls(stream, &pki.pem, "api.good.com", &[]).await.is_err());
    let denied = stage.gateway.usage().denied;
    assert!(denied[0].reason.contains("start it anew"), "{denied:?}");
}
