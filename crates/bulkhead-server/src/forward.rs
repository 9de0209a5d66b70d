//! Requests that are passed on to servers which run inside rooms.

use axum::{body::Body, extract::Request, response::Response};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

/// Says `request` on `stream`, which leads to a server inside, and returns its answer; also when both
/// agree to speak something else then. `kept` is kept for as long as they do.
pub(crate) async fn pass_on(
    stream: DuplexStream,
    mut request: Request,
    kept: impl Send + 'static,
) -> Result<Response, hyper::Error> {
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port inside ended early");
        }
    });
    let ours = hyper::upgrade::on(&mut request);
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                let copied = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
                copied.map(drop).unwrap_or_default();
            }
            drop(kept);
        });
    }
    Ok(response.map(Body::new))
}
