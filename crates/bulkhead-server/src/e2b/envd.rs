//! What is inside one room: programs, files, ports.

mod connect;
mod entry;
mod files;
mod filesystem;
mod port;
mod process;
mod watch;

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Limited};

use self::connect::{Code, RpcError};
pub(crate) use self::{
    entry::absolute,
    files::{chunks, signed},
    watch::Watchers,
};
use super::{
    control::resume,
    error::{closed, plain, unreachable},
    interpreter,
};
use crate::{
    house::{House, Tenant},
    keys::same,
    route::Inside,
    wire::Wire,
};

/// The port that stands for the room itself.
const ENVD: u16 = 49_983;
/// What a client is told that asks for root.
const NO_ROOT: &str =
    "user 'root': every program of this sandbox runs as 'user', and nobody in it is root";
/// The longest request that is held in memory.
const MOST: usize = 4 << 20;

/// A request that is inside a room.
pub(crate) struct Call {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) wire: Option<Wire>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The same room, for a task that outlives the request.
    fn again(&self) -> Self {
        Self {
            tenant: Arc::clone(&self.tenant),
            wire: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

/// Answers a request for something inside a room.
pub(crate) async fn answer(house: &House, inside: Inside, request: Request) -> Response {
    let Some(tenant) = house.tenant(&inside.room).filter(|it| house.lives(it)) else {
        return unreachable(&inside.room, "The sandbox was not found");
    };
    if inside.port != ENVD && !may_pass(&tenant, request.headers()) {
        return closed(&inside.room);
    }
    if tenant.is_paused() {
        if !tenant.facts.auto_resume {
            return unreachable(&inside.room, "The sandbox was not found");
        }
        if let Err(error) = resume(&tenant).await {
            return error.into_response();
        }
    }
    if inside.port == interpreter::PORT {
        return interpreter::answer(tenant, request).await;
    }
    if inside.port != ENVD {
        return port::answer(&tenant, inside.port, request).await;
    }
    within(tenant, request).await
}

/// Whether a request may reach the ports of a room.
fn may_pass(tenant: &Tenant, headers: &HeaderMap) -> bool {
    let Some(traffic) = &tenant.facts.traffic else { return true };
    let given = headers.get("e2b-traffic-access-token").and_then(|it| it.to_str().ok());
    given.is_some_and(|it| same(it, traffic))
}

/// Answers a request for the room itself.
pub(crate) async fn within(tenant: Arc<Tenant>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == "/health" {
        return StatusCode::NO_CONTENT.into_response();
    }
    if path == "/files" {
        return files::answer(&tenant, request).await;
    }
    if let Some(access) = &tenant.facts.access {
        let given = request.headers().get("x-access-token").and_then(|it| it.to_str().ok());
        if !given.is_some_and(|it| same(it, access)) {
            return plain(401, "unauthorized access, please provide a valid access token");
        }
    }
    let wire = request.extensions().get::<Wire>().cloned();
    let method = request.method().clone();
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MOST).collect().await else {
        return plain(413, "the request is too long");
    };
    let call = Call { tenant, wire, headers: parts.headers, body: body.to_bytes() };
    if let Err(error) = known_user(&call.headers) {
        // On a stream, clients understand an error only as its end.
        let streams = call.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let streams = streams.is_some_and(|it| it.starts_with("application/connect+"));
        return if streams { connect::failed(&error) } else { error.into_response() };
    }
    match (method, path.as_str()) {
        (Method::GET, "/envs") => envs(&call),
        (Method::POST, path) if path.starts_with("/process.Process/") => {
            process::answer(call, path.trim_start_matches("/process.Process/")).await
        }
        (Method::POST, path) if path.starts_with("/filesystem.Filesystem/") => {
            filesystem::answer(call, path.trim_start_matches("/filesystem.Filesystem/")).await
        }
        _ => plain(404, "there is no such call in a sandbox"),
    }
}

/// A room has one user, who goes by `user`.
fn known_user(headers: &HeaderMap) -> Result<(), RpcError> {
    let Some(given) = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok()) else {
        return Ok(());
    };
    let Some(basic) = given.strip_prefix("Basic ") else { return Ok(()) };
    let name = STANDARD.decode(basic.trim()).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = name.split(':').next().unwrap_or_default();
    match name {
        "" | "user" => Ok(()),
        "root" => Err(RpcError::new(Code::InvalidArgument, NO_ROOT)),
        name => {
            Err(RpcError::new(Code::Unauthenticated, format!("invalid username: '{name}'")))
        }
    }
}

fn envs(call: &Call) -> Response {
    let body = serde_json::to_string(&call.tenant.facts.env).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
