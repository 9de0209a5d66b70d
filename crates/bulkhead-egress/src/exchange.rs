//! Requests to one permitted host, and its answers.
//!
//! Each request is judged, cleaned, given its secrets, counted and answered here, whichever
//! version of HTTP it came by.

mod connection;
mod tap;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bulkhead_spec::EgressEvent;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::time::timeout;

use self::{connection::Connection, tap::Tap};
use crate::{
    destination::Destination,
    gate::{self, Permit},
    http::{body::Body, headers},
    meter::Toll,
    refusal::Answer,
    room::Room,
    usage::Reader,
    vault::Swap,
};

/// The most connections that are kept for later.
const KEPT: usize = 8;

/// As much of a path as is written down.
const LISTED: usize = 1024;

/// How requests get to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// In the clear.
    Plain,
    /// By TLS that was verified, and HTTP/1.1.
    Tls,
    /// By TLS that was verified, and the version that the host prefers.
    TlsAny,
}

/// A way to one host, for one connection from inside.
pub(crate) struct Line {
    room: Arc<Room>,
    permit: Arc<Permit>,
    security: Security,
    idle: Mutex<Vec<Connection>>,
}

impl Line {
    pub(crate) fn new(room: Arc<Room>, permit: Arc<Permit>, security: Security) -> Self {
        Self { room, permit, security, idle: Mutex::default() }
    }

    pub(crate) fn is_to(&self, destination: &Destination) -> bool {
        self.permit.destination() == destination
    }

    pub(crate) fn permit(&self) -> Arc<Permit> {
        Arc::clone(&self.permit)
    }

    /// How long is waited for each piece of a request or an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.room.timings.idle
    }

    pub(crate) fn toll(&self) -> &Toll {
        self.permit.toll()
    }

    /// Sends a request if it may be sent, and returns the answer as it may be seen inside.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Answer> {
        let method = request.method().clone();
        let path: String = request.uri().path().chars().take(LISTED).collect();
        self.judge(&request)?;
        let swap = self.prepare(&mut request)?;
        let waited = timeout(self.room.timings.idle, self.pass(request)).await;
        let response = waited.unwrap_or_else(|_| {
            Err(Answer::plain(StatusCode::GATEWAY_TIMEOUT, "the host did not answer in time"))
        })?;
        let to = self.permit.destination();
        self.room.report.list(EgressEvent::Request {
            host: to.host.clone(),
            port: to.port,
            method: method.to_string(),
            path,
            status: response.status().as_u16(),
        });
        Ok(self.clean(response, swap))
    }

    fn judge(&self, request: &Request<Body>) -> Result<(), Answer> {
        if request.method() == Method::TRACE {
            // It would answer with every header that it got.
            let why = "TRACE is not passed on";
            return Err(Answer::plain(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let target = request.uri().path_and_query().map_or("", |it| it.as_str());
        let judged =
            gate::judge_request(&self.room, &self.permit, request.method().as_str(), target);
        judged.map_err(|denied| Answer::denied(&denied))?;
        let host = &self.permit.destination().host;
        let upgrade = request.headers().contains_key(header::UPGRADE);
        if upgrade && self.room.meter.counts_tokens_of(host) {
            let why = "a WebSocket would get past the budget of this host";
            return Err(Answer::plain(StatusCode::FORBIDDEN, why));
        }
        Ok(())
    }

    /// Makes the request ready to leave: the right Host, and secrets in their places.
    fn prepare(&self, request: &mut Request<Body>) -> Result<Option<Swap>, Answer> {
        let to = self.permit.destination();
        let usual = if self.security == Security::Plain { 80 } else { 443 };
        let authority = if to.port == usual { to.host.to_string() } else { to.to_string() };
        let headers = request.headers_mut();
        let host = HeaderValue::from_str(&authority);
        headers.insert(
            header::HOST,
            host.map_err(|_| Answer::plain(StatusCode::BAD_REQUEST, "the host has no name"))?,
        );
        if self.security != Security::Plain {
            let vault = self.room.vault();
            let used = vault.swap(&to.host, headers);
            let used = used.map_err(|why| Answer::plain(StatusCode::FORBIDDEN, why))?;
            for name in used {
                self.room.report.secret_used(name, &to.host);
            }
        }
        let swap = self.room.vault().redaction(&to.host);
        if swap.is_some() || self.room.meter.counts_tokens_of(&to.host) {
            // What comes back must be readable here.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        Ok(swap)
    }

    async fn pass(
        &self,
        request: Request<Body>,
    ) -> Result<Response<hyper::body::Incoming>, Answer> {
        let mut request = request;
        while let Some(mut kept) = self.take() {
            match kept.send(request).await {
                Ok(response) => {
                    self.keep(kept);
                    return Ok(response);
                }
                // It was closed while nobody used it, and nothing was sent.
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(broken(&error)),
            }
        }
        let mut fresh = Connection::open(&self.room, &self.permit, self.security).await?;
        match fresh.send(request).await {
            Ok(response) => {
                self.keep(fresh);
                Ok(response)
            }
            Err((error, _)) => Err(broken(&error)),
        }
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(Connection::is_open);
        let at = idle.iter().position(Connection::is_ready)?;
        match idle.get(at).and_then(Connection::shared) {
            Some(shared) => Some(shared),
            None => Some(idle.swap_remove(at)),
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT && (idle.is_empty() || connection.shared().is_none()) {
            idle.push(connection);
        }
    }

    /// Removes from an answer what is not for the inside, and counts what it says and takes.
    fn clean(
        &self,
        response: Response<hyper::body::Incoming>,
        swap: Option<Swap>,
    ) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        headers::strip(&mut parts.headers);
        if let Some(swap) = &swap {
            swap.redact_headers(&mut parts.headers);
            if swap.changes_length() {
                parts.headers.remove(header::CONTENT_LENGTH);
            }
        }
        let counted = self.room.meter.counts_tokens_of(&self.permit.destination().host);
        let reader =
            counted.then(|| Reader::new(&parts.headers, Arc::clone(self.permit.toll())));
        let tap = Tap::new(body, Arc::clone(self.permit.toll()), swap, reader);
        Response::from_parts(parts, http_body_util::BodyExt::boxed_unsync(tap))
    }
}

fn broken(error: &hyper::Error) -> Answer {
    let why = format!("the host broke off: {error}");
    Answer::plain(StatusCode::BAD_GATEWAY, &why)
}
