//! Servers that run inside a sandbox.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::Response,
};
use bulkhead_engine::rooms::{Client, ClientError};
use http::{
    HeaderValue, Method, Uri,
    header::{AUTHORIZATION, COOKIE, HOST},
};

use super::{
    ask::Path,
    operation::{Gives, Operation, call},
    problem::{Kind, Problem},
    room::living,
    words::Ports,
};
use crate::{forward, house::House};

/// The state of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let path = "/v1/sandboxes/{id}/ports/{port}/{*path}";
    let methods = [
        (Method::GET, "getFromPort"),
        (Method::POST, "postToPort"),
        (Method::PUT, "putToPort"),
        (Method::PATCH, "patchAtPort"),
        (Method::DELETE, "deleteAtPort"),
        (Method::OPTIONS, "optionsOfPort"),
    ];
    let pass = "Pass a request on to what listens at a port inside; WebSockets too";
    let passed = methods.iter().map(|(method, id)| {
        call(method, path, (id, pass), pass_on)
            .needs(super::operation::Need::Key(crate::keys::Scope::Run))
            .answers(200, Gives::Bytes("application/octet-stream"))
    });
    let listed = call(
        &Method::GET,
        "/v1/sandboxes/{id}/ports",
        ("listPorts", "The ports on which its programs listen"),
        list,
    );
    std::iter::once(listed.gives::<Ports>(200)).chain(passed).collect()
}

async fn list(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
) -> Result<Answer<Ports>, Problem> {
    let (_, client) = living(&house, &id)?;
    let mut ports = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // Without IPv6 there is no second table.
        if let Ok(mut download) = client.read(table.as_bytes(), 0, Some(4 << 20)).await {
            let mut text = Vec::new();
            while let Some(bytes) = download.next().await? {
                text.extend(bytes);
            }
            ports.extend(listening(&String::from_utf8_lossy(&text)));
        }
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(Answer(Ports { ports }))
}

/// The ports of sockets that listen, in a table of the kernel's.
fn listening(table: &str) -> impl Iterator<Item = u16> {
    table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, state) = (columns.next()?, columns.nth(1)?);
        let port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
        (state == LISTENS).then_some(port)
    })
}

async fn pass_on(
    State(house): State<Arc<House>>,
    Path((id, port, path)): Path<(String, u16, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let (_, client) = living(&house, &id)?;
    let request = prepared(request, port, &path)?;
    let stream = connected(&client, port).await?;
    let odd = |error: hyper::Error| {
        Problem::new(Kind::PortClosed, format!("what listens there speaks no HTTP: {error}"))
    };
    forward::pass_on(stream, request, ()).await.map_err(odd)
}

async fn connected(client: &Client, port: u16) -> Result<tokio::io::DuplexStream, Problem> {
    match client.forward(port).await {
        Ok(stream) => Ok(stream),
        Err(error @ ClientError::Gone(_)) => Err(error.into()),
        Err(ClientError::Failed(_) | ClientError::Confused(_)) => {
            Err(Problem::new(Kind::PortClosed, format!("nobody listens on port {port} inside")))
        }
    }
}

/// The request as a server inside sees it. What opened this door stays outside.
fn prepared(mut request: Request, port: u16, path: &str) -> Result<Request, Problem> {
    let query = request.uri().query().map(|it| format!("?{it}")).unwrap_or_default();
    // As it was written, not as it was decoded.
    let written = request.uri().path();
    let after = written.splitn(7, '/').nth(6).unwrap_or(path);
    let uri: Uri = format!("/{after}{query}")
        .parse()
        .map_err(|_| Problem::malformed("that is no path"))?;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_11;
    let headers = request.headers_mut();
    headers.remove(AUTHORIZATION);
    headers.remove(COOKIE);
    headers.remove("x-api-key");
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        headers.insert(HOST, host);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn ports_that_listen_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                     \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
                     \x20  1: 0100007F:0016 0100007F:C350 01 00000000:00000000 00:00000000\n\
                     garbage\n";
        assert_eq!(listening(table).collect::<Vec<_>>(), [8080]);
    }

    proptest::proptest! {
        #[test]
        fn any_table_is_read(text in "([0-9A-F: \\n]|sl|.){0,200}") {
            drop(listening(&text).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_key_does_not_reach_a_server_inside() {
        let request = Request::builder()
            .uri("/v1/sandboxes/x/ports/80/a%20b?q=1")
            .header("authorization", "Bearer e2b_secret")
            .header("x-api-key", "e2b_secret")
            .header("cookie", "a=b")
            .header("x-other", "stays")
            .body(Body::empty())
            .unwrap();
        let passed = prepared(request, 80, "a b").unwrap();
        assert_eq!(passed.uri(), "/a%20b?q=1");
        let names: Vec<_> = passed.headers().keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["x-other", "host"]);
    }
}
