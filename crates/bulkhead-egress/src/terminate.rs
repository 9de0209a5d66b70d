//! TLS that ends at the gateway, for hosts whose requests must be read.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::{
    destination::Destination,
    exchange::{Line, Security},
    gate::{self, Permit},
    http::{
        self as front, Face,
        body::{self, Body},
        headers,
    },
    refusal::Answer,
    relay::forbidden,
    room::Room,
    wire::Wire,
};

/// Talks TLS with the program inside, in the name of the host that was permitted.
pub(crate) async fn serve(room: &Arc<Room>, permit: Permit, inside: Wire) {
    let to = permit.destination();
    let Some(authority) = &room.authority else {
        let why = "its requests must be read, and the sandbox was started without that: \
                   start it anew";
        gate::withdraw(room, to, why);
        return inside.reset();
    };
    let Ok(config) = authority.server_for(&to.host) else { return inside.reset() };
    let accepting = TlsAcceptor::from(config).accept(inside);
    let Ok(Ok(stream)) = timeout(room.timings.handshake, accepting).await else { return };
    let many = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let permit = Arc::new(permit);
    let inside = Wire::other(stream);
    if many {
        serve_many(room, permit, inside).await;
    } else {
        front::serve(room, inside, Face::Terminated(permit)).await;
    }
}

/// HTTP/2 from inside.
async fn serve_many(room: &Arc<Room>, permit: Arc<Permit>, inside: Wire) {
    let line = Arc::new(Line::new(Arc::clone(room), Arc::clone(&permit), Security::TlsAny));
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move {
            let answered = exchange(&line, request).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|it| told(&it)))
        }
    });
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_mins(1)))
        .serve_connection(TokioIo::new(inside), service);
    tokio::select! {
        // How it ends is between the program and us.
        ended = serving => drop(ended),
        () = forbidden(room, &permit) => {}
    }
}

async fn exchange(line: &Line, request: Request<Incoming>) -> Result<Response<Body>, Answer> {
    let (mut parts, body) = request.into_parts();
    let judged = line.permit();
    let body = body::Counted::new(body, Arc::clone(judged.toll())).boxed_unsync();
    let authority = parts.uri.authority().map(ToString::to_string);
    let named = authority.and_then(|it| Destination::from_authority(&it, Some(443)));
    let host = parts.headers.get(header::HOST).map(|it| it.to_str().unwrap_or_default());
    let host = host.map(|it| Destination::from_authority(it, Some(443)));
    let agrees = |it: Option<Destination>| it.as_ref() == Some(judged.destination());
    if !agrees(named) || !host.is_none_or(agrees) {
        let why = "the request names another host than the one that was connected to";
        return Err(Answer::plain(StatusCode::MISDIRECTED_REQUEST, why));
    }
    headers::check(&parts.headers)
        .map_err(|why| Answer::plain(StatusCode::BAD_REQUEST, why))?;
    headers::strip(&mut parts.headers);
    let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    parts.uri = path
        .parse()
        .map_err(|_| Answer::plain(StatusCode::BAD_REQUEST, "the target is not a path"))?;
    line.send(Request::from_parts(parts, body)).await
}

fn told(answer: &Answer) -> Response<Body> {
    let mut response = Response::new(body::full(answer.body.clone()));
    *response.status_mut() = answer.status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    let never = http::HeaderValue::from_static("false");
    response.headers_mut().insert("x-should-retry", never);
    response
}
