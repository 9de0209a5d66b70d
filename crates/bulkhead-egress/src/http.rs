//! HTTP/1.1 from inside: to a proxy, or to a host that it thinks it talks to.
//!
//! The parser is stricter than most servers, so that nobody behind it can read a request in
//! another way than it was judged. Each request is judged afresh, also on a connection that has
//! carried others.

pub(crate) mod body;
pub(crate) mod head;
pub(crate) mod headers;
mod respond;

use std::{io, sync::Arc, time::Duration};

use bulkhead_policy::Speech;
use http::{Method, Request, Response, StatusCode};
use tokio::{io::AsyncWriteExt, time::timeout};

use self::{
    body::Body,
    head::{Head, HeadError},
};
use crate::{
    connect,
    destination::Destination,
    exchange::{Line, Security},
    gate::{self, Denied, Permit},
    refusal::Answer,
    relay::{forbidden, relay},
    room::Room,
    wire::Wire,
};

/// How long a connection may wait for its next request.
const BETWEEN: Duration = Duration::from_secs(90);

/// Whom the program inside thinks it talks to.
pub(crate) enum Face {
    /// A proxy.
    Proxy,
    /// The host that was permitted, without TLS.
    Origin(Arc<Permit>),
    /// The host that was permitted, by TLS that ends at the gateway.
    Terminated(Arc<Permit>),
    /// A host that was refused.
    Denied(Denied),
}

/// What becomes of a connection after a request.
enum Next {
    /// It carries another.
    Request,
    /// It carries bytes, as upstream agreed.
    Tunnel(Arc<Permit>, Wire),
    /// It ends.
    Nothing,
}

/// Serves requests until one of both sides has had enough.
pub(crate) async fn serve(room: &Arc<Room>, mut wire: Wire, face: Face) {
    let mut line = None;
    let mut patience = room.timings.handshake;
    loop {
        let head = match timeout(patience, head::read(&mut wire)).await {
            Ok(Ok(head)) => head,
            Ok(Err(HeadError::Gone)) => return,
            Ok(Err(HeadError::Bad(why))) => {
                return refuse(&mut wire, &Answer::plain(StatusCode::BAD_REQUEST, why)).await;
            }
            Ok(Err(HeadError::TooLarge)) => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                return refuse(&mut wire, &Answer::plain(status, "the head is too large"))
                    .await;
            }
            Err(_) => return wire.reset(),
        };
        patience = BETWEEN.min(room.timings.idle);
        if head.method == Method::CONNECT && matches!(face, Face::Proxy) {
            return connect::serve(room, wire, &head).await;
        }
        let judged = choose(room, &face, &head, &mut line);
        let next = match judged {
            Ok(line) => {
                let permit = line.permit();
                tokio::select! {
                    next = turn(&mut wire, head, &line) => next,
                    () = forbidden(room, &permit) => return wire.reset(),
                }
            }
            Err(answer) => return refuse(&mut wire, &answer).await,
        };
        match next {
            Ok(Next::Request) => {}
            Ok(Next::Tunnel(permit, outside)) => {
                return relay(room, &permit, wire, outside).await;
            }
            Ok(Next::Nothing) => {
                drop(wire.shutdown().await);
                return;
            }
            Err(answer) => return refuse(&mut wire, &answer).await,
        }
    }
}

/// Says no and ends the connection: what else is in it was not read.
async fn refuse(wire: &mut Wire, answer: &Answer) {
    let said = async {
        wire.write_all(answer.to_http().as_bytes()).await?;
        wire.shutdown().await?;
        // Bytes that nobody reads would turn the end into a reset, and the answer would be lost.
        for _ in 0..64 {
            wire.ahead.clear();
            wire.look_further(16 << 10).await?;
        }
        Ok::<_, io::Error>(())
    };
    drop(timeout(Duration::from_secs(1), said).await);
}

/// The line to the host that a request is for.
fn choose(
    room: &Arc<Room>,
    face: &Face,
    head: &Head,
    last: &mut Option<Arc<Line>>,
) -> Result<Arc<Line>, Answer> {
    let (permit, security) = match face {
        Face::Denied(denied) => return Err(Answer::denied(denied)),
        Face::Proxy => {
            let destination = proxied(room, head)?;
            if let Some(line) = last.as_ref().filter(|it| it.is_to(&destination)) {
                return Ok(Arc::clone(line));
            }
            // The connection before ends first, so that it does not count twice.
            *last = None;
            let permit = gate::judge(room, destination).map_err(|it| Answer::denied(&it))?;
            if !permit.lets_speak(Speech::Http) {
                let why = "plain HTTP is not what its rule allows";
                return Err(Answer::denied(&gate::withdraw(room, permit.destination(), why)));
            }
            (Arc::new(permit), Security::Plain)
        }
        Face::Origin(permit) => {
            agrees(head, permit.destination(), 80)?;
            (Arc::clone(permit), Security::Plain)
        }
        Face::Terminated(permit) => {
            agrees(head, permit.destination(), 443)?;
            (Arc::clone(permit), Security::Tls)
        }
    };
    let line = match last {
        Some(line) => line,
        None => last.insert(Arc::new(Line::new(Arc::clone(room), permit, security))),
    };
    Ok(Arc::clone(line))
}

/// Where a request to a proxy wants to go.
fn proxied(room: &Room, head: &Head) -> Result<Destination, Answer> {
    let bad = |why| Answer::plain(StatusCode::BAD_REQUEST, why);
    let Some(rest) = head.target.strip_prefix("http://") else {
        return Err(bad("a proxy is asked for `http://host/path`, or for a tunnel by CONNECT"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or_default();
    let Some(destination) = Destination::from_authority(authority, Some(80)) else {
        return Err(Answer::denied(&gate::unreadable(room, authority, 80)));
    };
    agrees(head, &destination, 80)?;
    Ok(destination)
}

/// The host that a request names must be the one that was judged.
fn agrees(head: &Head, judged: &Destination, usual: u16) -> Result<(), Answer> {
    let named = |text: &str| Destination::from_authority(text, Some(usual));
    match &head.host {
        Some(host) if named(host).as_ref() == Some(judged) => Ok(()),
        None if !head.is_persistent() => Ok(()),
        Some(_) | None => Err(Answer::plain(
            StatusCode::MISDIRECTED_REQUEST,
            "the Host header names another host than the one that was connected to",
        )),
    }
}

/// One request and its answer.
async fn turn(wire: &mut Wire, head: Head, line: &Line) -> Result<Next, Answer> {
    let persistent = head.is_persistent();
    let (method, framing) = (head.method.clone(), head.framing);
    let (feed, body) = body::channel(framing, line.patience());
    let request = upstream_request(&head, body)?;
    if head.expects_continue {
        drop(wire.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await);
    }
    let (mut pumping, mut whole) = (true, false);
    let response = {
        let pump = feed.pump(wire, framing, line.toll());
        let send = line.send(request);
        tokio::pin!(pump, send);
        loop {
            tokio::select! {
                biased;
                pumped = &mut pump, if pumping => {
                    (pumping, whole) = (false, pumped.map_err(|it| bad_body(&it))?);
                }
                response = &mut send => break response?,
            }
        }
    };
    let persistent = persistent && whole;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return upgrade(wire, line, response).await;
    }
    let answered = respond::write(
        wire,
        response,
        respond::To { method, persistent, patience: line.patience() },
    )
    .await;
    match answered {
        Ok(()) if persistent => Ok(Next::Request),
        Ok(()) | Err(_) => Ok(Next::Nothing),
    }
}

/// From here on bytes go both ways: upstream has said so.
async fn upgrade(
    wire: &mut Wire,
    line: &Line,
    mut response: Response<Body>,
) -> Result<Next, Answer> {
    let upgraded = hyper::upgrade::on(&mut response).await;
    let outside = upgraded.map_err(|_| {
        Answer::plain(
            StatusCode::BAD_GATEWAY,
            "the host agreed to switch protocols and did not",
        )
    })?;
    match respond::write_switch(wire, &response.into_parts().0.headers).await {
        Ok(()) => {
            let outside = Wire::other(hyper_util::rt::TokioIo::new(outside));
            Ok(Next::Tunnel(line.permit(), outside))
        }
        Err(_) => Ok(Next::Nothing),
    }
}

/// Reads one request, head and body, as it would be sent on.
pub(crate) async fn read_whole(mut wire: Wire) -> Option<(String, Vec<u8>)> {
    use http_body_util::BodyExt;

    let head = head::read(&mut wire).await.ok()?;
    let (feed, body) = body::channel(head.framing, BETWEEN);
    let toll = crate::meter::Toll::free();
    let pump = feed.pump(&mut wire, head.framing, &toll);
    let (pumped, collected) = tokio::join!(pump, body.collect());
    let whole = pumped.ok().filter(|it| *it);
    let bytes = collected.ok()?.to_bytes().to_vec();
    whole.map(|_| (format!("{} {}", head.method, head.target), bytes))
}

fn bad_body(error: &io::Error) -> Answer {
    let status = if error.kind() == io::ErrorKind::QuotaExceeded {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::BAD_REQUEST
    };
    Answer::plain(status, &format!("the body of the request was not read: {error}"))
}

/// The request as it goes out: no trace of what was between the program and us.
fn upstream_request(head: &Head, body: Body) -> Result<Request<Body>, Answer> {
    let target = match head.target.strip_prefix("http://") {
        None => head.target.clone(),
        Some(rest) => match rest.find(['/', '?']) {
            Some(at) if rest.as_bytes().get(at) == Some(&b'/') => {
                rest.get(at..).unwrap_or_default().to_owned()
            }
            Some(at) => format!("/{}", rest.get(at..).unwrap_or_default()),
            None => "/".to_owned(),
        },
    };
    let mut request = Request::builder()
        .method(head.method.clone())
        .uri(target)
        .body(body)
        .map_err(|_| Answer::plain(StatusCode::BAD_REQUEST, "the target is not a path"))?;
    *request.headers_mut() = head.headers.clone();
    Ok(request)
}
