//! Servers that run inside a room.

use axum::{body::Body, extract::Request, response::Response};
use bulkhead_engine::rooms::ClientError;
use http::{HeaderValue, StatusCode, header::HOST};
use hyper_util::rt::TokioIo;

use super::super::error::{plain, unreachable};
use crate::{house::Tenant, wire::Wire};

/// Passes a request on to what listens at `port` inside, and its answer back; also when both agree
/// to speak something else then.
pub(super) async fn answer(
    tenant: &std::sync::Arc<Tenant>,
    port: u16,
    request: Request,
) -> Response {
    let stream = match tenant.client.forward(port).await {
        Ok(stream) => stream,
        Err(ClientError::Gone(_)) => {
            return unreachable(&tenant.id, "The sandbox was not found");
        }
        Err(ClientError::Failed(_) | ClientError::Confused(_)) => {
            return unreachable(&tenant.id, "The sandbox is running but port is not open");
        }
    };
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = match connected {
        Ok(connected) => connected,
        Err(error) => return plain(502, &error.to_string()),
    };
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port inside ended early");
        }
    });
    passed(tenant, port, request, &mut sender).await
}

async fn passed(
    tenant: &std::sync::Arc<Tenant>,
    port: u16,
    mut request: Request,
    sender: &mut hyper::client::conn::http1::SendRequest<Body>,
) -> Response {
    let wire = request.extensions().get::<Wire>().cloned();
    let binding = wire.map(|it| tenant.bind(it));
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str()).to_owned();
    let Ok(uri) = path.parse() else { return plain(400, "that is no path") };
    *request.uri_mut() = uri;
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        request.headers_mut().insert(HOST, host);
    }
    let ours = hyper::upgrade::on(&mut request);
    let mut response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return plain(502, &error.to_string()),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                let copied = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
                copied.map(drop).unwrap_or_default();
            }
            drop(binding);
        });
    }
    response.map(Body::new)
}
