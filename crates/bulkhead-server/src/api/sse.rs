//! Events to whoever listens, as `text/event-stream`.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use tokio::sync::mpsc;

/// How often a silent stream says that it is alive.
const PULSE: Duration = Duration::from_secs(15);

/// The server's end of a stream. What waits for a slow listener is bounded: whoever sends waits.
#[derive(Debug)]
pub(crate) struct Events(mpsc::Sender<Bytes>);

/// Nobody listens any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl Events {
    /// A stream, and the response that carries it.
    pub(crate) fn open() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(16);
        let frames = stream::unfold(receiver, async |mut receiver| {
            let frame = match tokio::time::timeout(PULSE, receiver.recv()).await {
                Ok(frame) => frame?,
                Err(_) => Bytes::from_static(b": alive\n\n"),
            };
            Some((Ok::<_, Infallible>(frame), receiver))
        });
        let mut response = Response::new(Body::from_stream(frames));
        let headers = response.headers_mut();
        let form = HeaderValue::from_static("text/event-stream");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        (Self(sender), response)
    }

    /// Sends an event. JSON has no line breaks, so it is one line of data.
    pub(crate) async fn send(
        &self,
        name: &str,
        id: Option<&str>,
        data: &impl Serialize,
    ) -> Result<(), Gone> {
        let data = serde_json::to_string(data).map_err(|_| Gone)?;
        let id = id.map(|it| format!("id: {it}\n")).unwrap_or_default();
        let frame = format!("{id}event: {name}\ndata: {data}\n\n");
        self.0.send(frame.into()).await.map_err(|_| Gone)
    }

    /// Returns when nobody listens any more.
    pub(crate) async fn left(&self) {
        self.0.closed().await;
    }
}

/// Whether a client wants events.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accept.is_some_and(|it| it.contains("text/event-stream"))
}

/// The last event that a client has seen before it lost its connection.
pub(crate) fn last_seen(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|it| it.to_str().ok())
}
