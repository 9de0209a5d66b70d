//! Servers that run inside a room.

use std::sync::Arc;

use axum::{extract::Request, response::Response};
use bulkhead_engine::rooms::ClientError;
use http::{HeaderValue, header::HOST};

use super::super::error::{plain, unreachable};
use crate::{forward::pass_on, house::Tenant, wire::Wire};

/// Passes a request on to what listens at `port` inside, and its answer back.
pub(super) async fn answer(tenant: &Arc<Tenant>, port: u16, mut request: Request) -> Response {
    let stream = match tenant.client.forward(port).await {
        Ok(stream) => stream,
        Err(ClientError::Gone(_)) => {
            return unreachable(&tenant.id, "The sandbox was not found");
        }
        Err(ClientError::Failed(_) | ClientError::Confused(_)) => {
            return unreachable(&tenant.id, "The sandbox is running but port is not open");
        }
    };
    let wire = request.extensions().get::<Wire>().cloned();
    let binding = wire.map(|it| tenant.bind(it));
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str()).to_owned();
    let Ok(uri) = path.parse() else { return plain(400, "that is no path") };
    *request.uri_mut() = uri;
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        request.headers_mut().insert(HOST, host);
    }
    let answered = pass_on(stream, request, binding).await;
    answered.unwrap_or_else(|error| plain(502, &error.to_string()))
}
