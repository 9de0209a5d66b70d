//! One connection to a host, for requests.

use bulkhead_spec::Host;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::Security;
use crate::{
    dial::{self, DialFailed, Route},
    gate::Permit,
    http::body::Body,
    refusal::Answer,
    room::Room,
    wire::Wire,
};

/// A connection that carries one request at a time, or many.
pub(super) enum Connection {
    One(http1::SendRequest<Body>, Route),
    Many(http2::SendRequest<Body>),
}

impl Connection {
    /// Dials what was permitted and, if asked, makes sure who is there.
    pub(super) async fn open(
        room: &Room,
        permit: &Permit,
        security: Security,
    ) -> Result<Self, Answer> {
        let to = permit.destination();
        let failed = |it: DialFailed| Answer::failed(&to.host.to_string(), to.port, &it);
        if security == Security::Plain {
            let (wire, route) = dial::dial_plain(room, permit).await.map_err(failed)?;
            return one(wire, route).await;
        }
        let wire = dial::dial(room, permit).await.map_err(failed)?;
        match security {
            Security::Plain | Security::Tls => {
                let (wire, _) = secure(room, &to.host, wire, &[b"http/1.1"]).await?;
                one(wire, Route::Host).await
            }
            Security::TlsAny => {
                let (wire, protocol) =
                    secure(room, &to.host, wire, &[b"h2", b"http/1.1"]).await?;
                if protocol.as_deref() == Some(b"h2") {
                    many(wire).await
                } else {
                    one(wire, Route::Host).await
                }
            }
        }
    }

    /// Sends a request; one that was not sent at all comes back.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<Body>>)> {
        match self {
            Self::One(sender, route) => {
                if let Route::Proxy(login) = route {
                    request = for_proxy(request, login.as_ref());
                }
                *request.version_mut() = Version::HTTP_11;
                let sent = sender.try_send_request(request).await;
                sent.map_err(|mut it| (it.take_message(), it.into_error())).map_err(swap)
            }
            Self::Many(sender) => {
                let request = for_many(request);
                let sent = sender.try_send_request(request).await;
                sent.map_err(|mut it| (it.take_message(), it.into_error())).map_err(swap)
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::One(sender, _) => !sender.is_closed(),
            Self::Many(sender) => !sender.is_closed(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::One(sender, _) => sender.is_ready(),
            Self::Many(sender) => sender.is_ready(),
        }
    }

    /// The same connection again, if it can carry more than one request at a time.
    pub(super) fn shared(&self) -> Option<Self> {
        match self {
            Self::One(..) => None,
            Self::Many(sender) => Some(Self::Many(sender.clone())),
        }
    }
}

fn swap<A, B>((one, other): (A, B)) -> (B, A) {
    (other, one)
}

/// In HTTP/2 the host is part of the target.
fn for_many(mut request: Request<Body>) -> Request<Body> {
    let host = request.headers_mut().remove(header::HOST);
    let path = request.uri().path_and_query().cloned();
    let target = Uri::builder()
        .scheme("https")
        .authority(host.as_ref().map(HeaderValue::as_bytes).unwrap_or_default())
        .path_and_query(path.unwrap_or_else(|| http::uri::PathAndQuery::from_static("/")));
    if let Ok(target) = target.build() {
        *request.uri_mut() = target;
    }
    *request.version_mut() = Version::HTTP_2;
    request
}

/// A proxy is told the whole address.
fn for_proxy(mut request: Request<Body>, login: Option<&HeaderValue>) -> Request<Body> {
    let host = request.headers().get(header::HOST).cloned();
    let path = request.uri().path_and_query().cloned();
    let target = Uri::builder()
        .scheme("http")
        .authority(host.as_ref().map(HeaderValue::as_bytes).unwrap_or_default())
        .path_and_query(path.unwrap_or_else(|| http::uri::PathAndQuery::from_static("/")));
    if let Ok(target) = target.build() {
        *request.uri_mut() = target;
    }
    if let Some(login) = login {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, login.clone());
    }
    request
}

async fn one(wire: Wire, route: Route) -> Result<Connection, Answer> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(256 << 10)
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|it| super::broken(&it))?;
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok(Connection::One(sender, route))
}

async fn many(wire: Wire) -> Result<Connection, Answer> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(64 << 10)
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|it| super::broken(&it))?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(Connection::Many(sender))
}

/// TLS to the host, verified; and the protocol that it chose.
async fn secure(
    room: &Room,
    host: &Host,
    wire: Wire,
    protocols: &[&[u8]],
) -> Result<(Wire, Option<Vec<u8>>), Answer> {
    let failed = |why: String| Answer::plain(StatusCode::BAD_GATEWAY, &why);
    let mut config = room.trust.client().await.map_err(failed)?;
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let name = match host {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).map_err(|_| {
            failed("the host has no name that a certificate could have".to_owned())
        })?,
        Host::Address(address) => ServerName::IpAddress((*address).into()),
    };
    let connecting = TlsConnector::from(std::sync::Arc::new(config)).connect(name, wire);
    let secured = tokio::time::timeout(room.timings.dial, connecting).await;
    match secured {
        Ok(Ok(stream)) => {
            let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            Ok((Wire::other(stream), protocol))
        }
        Ok(Err(error)) => Err(failed(format!("the host did not prove who it is: {error}"))),
        Err(_) => Err(failed("the host did not finish its TLS handshake in time".to_owned())),
    }
}
