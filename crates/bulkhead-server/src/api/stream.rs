//! A raw connection to a sandbox's shim, for Bulkhead's own clients: the command and the library.
//!
//! It carries one request in the protocol between shims and clients, which knows nothing that the
//! other calls cannot ask for. Everything that it asks is judged by the sandbox's own plan.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderValue, Method, StatusCode,
    header::{CONNECTION, UPGRADE},
};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;

use super::{
    ask::Path,
    operation::{Need, Operation, call},
    problem::{Kind, Problem},
    room::living,
};
use crate::{house::House, keys::Scope};

/// What is spoken after the upgrade.
pub const PROTOCOL: &str = "bulkhead-room";

/// `GET …/stream`
pub(super) fn operation() -> Operation {
    call(
        &Method::GET,
        "/v1/sandboxes/{id}/stream",
        ("openStream", "A connection for Bulkhead's own clients (`Upgrade: bulkhead-room`)"),
        stream,
    )
    .needs(Need::Key(Scope::Run))
    .answers(101, super::operation::Gives::Nothing)
}

async fn stream(
    State(house): State<Arc<House>>,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, Problem> {
    let wanted = request.headers().get(UPGRADE).and_then(|it| it.to_str().ok());
    if wanted != Some(PROTOCOL) {
        let text = format!("this call is an upgrade to `{PROTOCOL}`");
        return Err(Problem::new(Kind::NotAcceptable, text));
    }
    let (_, client) = living(&house, &id)?;
    let duplex = client.connect().await?;
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(theirs) = upgraded.await else { return };
        let (mut theirs_from, mut theirs_to) = tokio::io::split(TokioIo::new(theirs));
        let (mut ours_from, mut ours_to) = duplex.halves();
        let inward = async {
            let copied = tokio::io::copy(&mut theirs_from, &mut ours_to).await;
            // Who says no more may still listen; who is gone does not.
            ours_to.shutdown().await.unwrap_or_default();
            copied
        };
        let outward = async {
            let copied = tokio::io::copy(&mut ours_from, &mut theirs_to).await;
            theirs_to.shutdown().await.unwrap_or_default();
            copied
        };
        tokio::pin!(inward);
        tokio::select! {
            _ = outward => {}
            () = gone(&mut inward) => {}
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    *response.body_mut() = Body::empty();
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    Ok(response)
}

/// Returns only if the connection broke: its orderly end is no reason to stop talking.
async fn gone<T>(inward: &mut (impl Future<Output = std::io::Result<T>> + Unpin)) {
    if inward.await.is_ok() {
        std::future::pending::<()>().await;
    }
}
