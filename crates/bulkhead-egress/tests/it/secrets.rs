//! Values that programs use and never see.

use std::{fmt::Write, sync::Arc};

use bulkhead_egress::{BoundSecret, GatewayPlan};
use bulkhead_spec::Secret;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use crate::{
    servers::{Pki, Web, tls},
    stage::{Stage, World, rules},
    terminated::{many, say, trusting},
    ways::{TUNNELS, Way, is_over, reach},
};

const VALUE: &str = "sk-ant-api03-CaNaRy0123456789abcdefghijklmnopqrstuv";

fn key(value: &str) -> BoundSecret {
    BoundSecret {
        name: "ANTHROPIC_API_KEY".to_owned(),
        value: Secret::new(value),
        hosts: vec!["api.good.com".parse().unwrap()],
        header: None,
    }
}

async fn stage(value: &str) -> (Stage, Web, String) {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    for (name, address) in [("api.good.com", "203.0.113.1"), ("other.com", "203.0.113.2")] {
        world.put(name, address, 443, web.secure(&pki, name).await);
        world.put(name, address, 80, web.plain().await);
    }
    let rules = rules(&["api.good.com", "https://other.com/**", "http://other.com"], &[]);
    let secrets = vec![key(value)];
    let stage = Stage::with(&world, GatewayPlan { rules, secrets, ..trusting(&pki) });
    let placeholder = stage.gateway.placeholders()["ANTHROPIC_API_KEY"].clone();
    assert_ne!(placeholder, value);
    (stage, web, placeholder)
}

fn get(host: &str, header: &str) -> String {
    format!("GET /v1 HTTP/1.1\r\nHost: {host}\r\n{header}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_placeholder_becomes_the_value_by_every_way() {
    let (stage, web, placeholder) = stage(VALUE).await;
    assert!(placeholder.starts_with("sk-ant-api03-") && placeholder.len() == VALUE.len());
    for way in TUNNELS {
        let headers = [
            format!("x-api-key: {placeholder}"),
            format!("Authorization: Bearer {placeholder}"),
        ];
        for header in headers {
            let said = say(&stage, way, "api.good.com", &get("api.good.com", &header)).await;
            assert!(said.starts_with("HTTP/1.1 200"), "{said}");
            let heard = web.heard().pop().unwrap();
            let name = header.split(':').next().unwrap().to_ascii_lowercase();
            assert!(heard.headers[name.as_str()].to_str().unwrap().ends_with(VALUE));
        }
    }
    let mut sender = many(&stage, "api.good.com").await;
    let request = Request::get("https://api.good.com/v1").header("x-api-key", &placeholder);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert_eq!(web.heard().pop().unwrap().headers["x-api-key"], VALUE);
}

/// Row D24.
#[tokio::test]
async fn a_placeholder_anywhere_else_stays_what_it_is() {
    let (stage, web, placeholder) = stage(VALUE).await;
    let elsewhere = [
        format!(
            "GET /?key={placeholder} HTTP/1.1\r\nHost: api.good.com\r\nConnection: close\r\n\r\n"
        ),
        get("api.good.com", &format!("User-Agent: {placeholder}")),
        get("api.good.com", &format!("Cookie: a={placeholder}")),
        get("api.good.com", &format!("X-Request-Id: {placeholder}")),
        format!(
            "POST / HTTP/1.1\r\nHost: api.good.com\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{placeholder}",
            placeholder.len()
        ),
    ];
    for request in elsewhere {
        let said = say(&stage, Way::Connect, "api.good.com", &request).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        assert!(!format!("{:?}", web.heard()).contains(VALUE), "{request}");
    }
    // Nor at another host, nor in the clear.
    say(
        &stage,
        Way::Connect,
        "other.com",
        &get("other.com", &format!("x-api-key: {placeholder}")),
    )
    .await;
    for host in ["other.com", "api.good.com"] {
        let request = format!(
            "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nx-api-key: {placeholder}\r\nConnection: close\r\n\r\n"
        );
        crate::ways::raw_http(&stage, request.as_bytes()).await;
    }
    assert!(!format!("{:?}", web.heard()).contains(VALUE));
    // Nor where it cannot be seen.
    let before = web.heard().len();
    let trace = format!(
        "TRACE / HTTP/1.1\r\nHost: api.good.com\r\nx-api-key: {placeholder}\r\nConnection: close\r\n\r\n"
    );
    assert!(
        say(&stage, Way::Connect, "api.good.com", &trace).await.starts_with("HTTP/1.1 405")
    );
    assert_eq!(web.heard().len(), before);
}

/// As git sends a token that stands in a URL, or that a credential helper has given it.
#[tokio::test]
async fn a_placeholder_in_basic_credentials_becomes_the_value_and_never_comes_back() {
    let (stage, web, placeholder) = stage(VALUE).await;
    for user in ["x-access-token", "me", ""] {
        let sent = encode(format!("{user}:{placeholder}").as_bytes());
        let real = encode(format!("{user}:{VALUE}").as_bytes());
        let header = format!("Authorization: basic {sent}");
        let echo = Response::builder().header("x-echo", format!("Basic {real}"));
        web.answer(echo.body(Full::from(format!("you said Basic {real}"))).unwrap());
        let said =
            say(&stage, Way::Connect, "api.good.com", &get("api.good.com", &header)).await;
        assert_eq!(
            web.heard().pop().unwrap().headers["authorization"],
            format!("Basic {real}")
        );
        assert!(!said.contains(&real), "{said}");
        assert_eq!(said.matches(&sent).count(), 2, "{said}");
        // Nor does an answer to somebody who sent nothing.
        let later = Response::builder().body(Full::from(format!("last was {real}"))).unwrap();
        web.answer(later);
        let said =
            say(&stage, Way::Connect, "api.good.com", &get("api.good.com", "X-A: b")).await;
        assert!(!said.contains(&real) && said.contains(&sent), "{said}");
    }
    // Elsewhere it stays what it is.
    let sent = encode(format!("me:{placeholder}").as_bytes());
    let header = format!("Authorization: Basic {sent}");
    say(&stage, Way::Connect, "other.com", &get("other.com", &header)).await;
    assert_eq!(web.heard().pop().unwrap().headers["authorization"], format!("Basic {sent}"));
}

fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0_u32, |all, it| all << 8 | u32::from(*it))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(all >> (18 - 6 * place) & 63) as usize]));
        }
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

/// An API that repeats what it was sent repeats the placeholder, in headers and in the body,
/// however it is cut into pieces.
#[tokio::test]
async fn a_value_that_comes_back_is_replaced() {
    for value in [VALUE, "hunter2"] {
        let (stage, web, placeholder) = stage(value).await;
        let header = format!("x-api-key: {placeholder}");
        let body = format!(
            "{{\"headers\":{{\"x-api-key\":\"{value}\"}},\"again\":\"{value}{value}\"}} {value}"
        );
        let echo = Response::builder()
            .header("set-cookie", format!("k={value}; Path=/"))
            .header("x-echo", value);
        web.answer(echo.body(Full::from(body)).unwrap());
        let said =
            say(&stage, Way::Connect, "api.good.com", &get("api.good.com", &header)).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        assert!(!said.contains(value), "{said}");
        // A last letter that may begin the value is held back, and comes as a chunk of its own.
        let whole = said.replace("\r\n1\r\n", "");
        assert_eq!(whole.matches(&placeholder).count(), 6, "{said}");
        assert_eq!(web.heard()[0].headers["accept-encoding"], "identity");
    }
}

/// The canary: the value is nowhere but at its host.
#[tokio::test]
async fn the_value_is_nowhere_but_at_its_host() {
    let (stage, web, placeholder) = stage(VALUE).await;
    let header = format!("x-api-key: {placeholder}");
    let mut seen = String::new();
    for way in TUNNELS {
        seen += &say(&stage, way, "api.good.com", &get("api.good.com", &header)).await;
    }
    let mut sender = many(&stage, "api.good.com").await;
    let request = Request::get("https://api.good.com/v1").header("x-api-key", &placeholder);
    let response =
        sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    write!(seen, "{:?}", response.headers()).unwrap();
    seen += &String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes());
    write!(seen, "{:?}", stage.events.lock().unwrap()).unwrap();
    seen += &serde_json::to_string(&stage.gateway.usage()).unwrap();
    write!(seen, "{:?}{:?}", stage.gateway.rules(), stage.gateway.placeholders()).unwrap();
    write!(seen, "{:?}", key(VALUE)).unwrap();
    assert!(!seen.contains(VALUE));
    assert!(seen.contains("SecretUsed"));
    // And it did arrive.
    assert!(web.heard().iter().all(|it| it.headers["x-api-key"] == VALUE));
}

/// Nor does a host that remembers tell it later.
#[tokio::test]
async fn a_value_that_comes_back_later_is_replaced() {
    let (stage, web, placeholder) = stage(VALUE).await;
    web.answer(Response::new(Full::from(format!("your key is {VALUE}"))));
    let said = say(&stage, Way::Connect, "api.good.com", &get("api.good.com", "X: y")).await;
    assert!(said.ends_with(&format!("your key is {placeholder}")), "{said}");
}

#[tokio::test]
async fn a_header_is_set_by_the_gateway_for_its_hosts_only() {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    for (name, address) in [("api.good.com", "203.0.113.1"), ("other.com", "203.0.113.2")] {
        world.put(name, address, 443, web.secure(&pki, name).await);
    }
    let header = bulkhead_spec::SetHeader {
        name: "Authorization".to_owned(),
        word: Some("Bearer".to_owned()),
    };
    let secrets = vec![BoundSecret { header: Some(header), ..key(VALUE) }];
    let rules = rules(&["api.good.com", "https://other.com/**"], &[]);
    let stage = Stage::with(&world, GatewayPlan { rules, secrets, ..trusting(&pki) });
    assert!(stage.gateway.placeholders().is_empty());
    for way in TUNNELS {
        // Whatever a program says there is not what arrives.
        for said in ["X-Other: 1", "Authorization: Bearer forged"] {
            say(&stage, way, "api.good.com", &get("api.good.com", said)).await;
            let heard = format!("{:?}", web.heard().pop().unwrap());
            assert!(heard.contains(&format!("Bearer {VALUE}")), "{way:?} {heard}");
            assert!(!heard.contains("forged"), "{way:?} {heard}");
        }
        say(&stage, way, "other.com", &get("other.com", "X-Other: 1")).await;
        let heard = format!("{:?}", web.heard().pop().unwrap());
        assert!(!heard.contains(VALUE), "{way:?} {heard}");
    }
}

/// A header of the name that a client of ours gives it.
fn header(at: u32, host: &str, value: &str) -> BoundSecret {
    let set = bulkhead_spec::SetHeader { name: "X-Token".to_owned(), word: None };
    BoundSecret {
        name: format!("CLIENT_{at}"),
        value: Secret::new(value),
        hosts: vec![host.parse().unwrap()],
        header: Some(set),
    }
}

#[tokio::test]
async fn headers_are_changed_while_the_sandbox_lives() {
    const OLD: &str = "old-token-0123456789";
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    for (name, address) in [("api.good.com", "203.0.113.1"), ("other.com", "203.0.113.2")] {
        world.put(name, address, 443, web.secure(&pki, name).await);
    }
    let allowed = || rules(&["api.good.com", "other.com"], &[]);
    // One that a client has set, and one of the machine's owner.
    let owner = bulkhead_spec::SetHeader { name: "X-Owner".to_owned(), word: None };
    let owner = BoundSecret { header: Some(owner), ..key(VALUE) };
    let secrets = vec![header(0, "api.good.com", OLD), owner];
    let stage =
        Stage::with(&world, GatewayPlan { rules: allowed(), secrets, ..trusting(&pki) });
    let set = |headers: Vec<BoundSecret>| {
        stage.gateway.set_headers("CLIENT_", headers).unwrap();
        stage.gateway.replace_rules(allowed());
    };
    // Nobody reads what goes to the other host, until it has a header.
    let unread = reach(&stage, Way::Connect, "other.com", 443).await.stream();
    let unread = tls(unread, &pki.pem, "other.com", &["http/1.1"]).await.unwrap();
    set(vec![header(0, "other.com", "new"), header(1, "api.good.com", "newer")]);
    assert!(is_over(&mut unread.into_inner().0).await);
    for (host, value) in [("other.com", "new"), ("api.good.com", "newer")] {
        web.answer(Response::new(Full::from(format!("it was {OLD}"))));
        let said = say(&stage, Way::Connect, host, &get(host, "X-Token: forged")).await;
        let heard = web.heard().pop().unwrap();
        assert_eq!(heard.headers["x-token"], value, "{host}");
        // What was set before is still no business of the sandbox.
        assert_eq!(said.contains(OLD), host == "other.com", "{said}");
    }
    set(Vec::new());
    say(&stage, Way::Connect, "api.good.com", &get("api.good.com", "X-Token: mine")).await;
    let heard = web.heard().pop().unwrap();
    assert_eq!(
        (&heard.headers["x-token"], &heard.headers["x-owner"]),
        (&"mine".parse().unwrap(), &VALUE.parse().unwrap())
    );
}

#[tokio::test]
async fn a_sandbox_that_trusts_no_gateway_gets_no_headers_later() {
    let stage = Stage::new(&Arc::new(World::default()), &["api.good.com"], &[]);
    let refused = stage.gateway.set_headers("CLIENT_", vec![header(0, "api.good.com", "x")]);
    assert!(refused.unwrap_err().to_string().contains("trust no gateway"));
    stage.gateway.set_headers("CLIENT_", Vec::new()).unwrap();
}
