//! The Connect protocol, as far as its JSON form goes: unary calls, and streams from the server.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unimplemented,
    Internal,
    Unavailable,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unauthenticated => "unauthenticated",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl RpcError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn json(&self) -> Value {
        json!({ "code": self.code.name(), "message": self.message })
    }
}

impl IntoResponse for RpcError {
    fn into_response(self) -> Response {
        let mut response = typed("application/json", Body::from(self.json().to_string()));
        *response.status_mut() = self.code.status();
        response
    }
}

fn typed(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The message of a unary call.
pub(crate) fn message<T: DeserializeOwned>(body: &[u8]) -> Result<T, RpcError> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|error| RpcError::new(Code::InvalidArgument, error.to_string()))
}

/// The first message of a stream.
pub(crate) fn first<T: DeserializeOwned>(body: &[u8]) -> Result<T, RpcError> {
    let mut all = envelopes(body)?;
    if all.is_empty() {
        return message(&[]);
    }
    message(all.swap_remove(0))
}

/// All messages of a stream from the client.
pub(crate) fn envelopes(mut body: &[u8]) -> Result<Vec<&[u8]>, RpcError> {
    let bad = || RpcError::new(Code::InvalidArgument, "a frame is cut short");
    let mut found = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let [flags, a, b, c, d] = *head;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| bad())?;
        let (message, rest) = rest.split_at_checked(length).ok_or_else(bad)?;
        if flags & 2 == 0 {
            found.push(message);
        }
        body = rest;
    }
    if body.is_empty() { Ok(found) } else { Err(bad()) }
}

/// The answer to a unary call.
pub(crate) fn reply(body: &Value) -> Response {
    typed("application/json", Body::from(body.to_string()))
}

/// How long the client waits at most.
pub(crate) fn deadline(headers: &HeaderMap) -> Option<std::time::Duration> {
    let text = headers.get("connect-timeout-ms")?.to_str().ok()?;
    let millis: u64 = text.parse().ok()?;
    (millis != 0).then(|| std::time::Duration::from_millis(millis))
}

/// How often a silent stream says that it is alive.
pub(crate) fn ping(headers: &HeaderMap) -> std::time::Duration {
    let text = headers.get("keepalive-ping-interval").and_then(|it| it.to_str().ok());
    let seconds = text.and_then(|it| it.parse::<u64>().ok()).filter(|it| *it != 0);
    std::time::Duration::from_secs(seconds.unwrap_or(50))
}

/// The server's end of a stream.
#[derive(Debug)]
pub(crate) struct Stream(mpsc::Sender<Bytes>);

/// The client no longer listens.
#[derive(Debug)]
pub(crate) struct Gone;

impl Stream {
    /// A stream, and the response that carries it.
    pub(crate) fn open() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(16);
        let frames = stream::unfold(receiver, async |mut receiver| {
            let frame = receiver.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(frame), receiver))
        });
        (Self(sender), typed("application/connect+json", Body::from_stream(frames)))
    }

    /// Sends a message.
    pub(crate) async fn send(&self, message: &impl Serialize) -> Result<(), Gone> {
        let text = serde_json::to_vec(message).map_err(|_| Gone)?;
        self.0.send(frame(0, &text)).await.map_err(|_| Gone)
    }

    /// Ends the stream; nothing follows.
    pub(crate) async fn end(self, error: Option<RpcError>) {
        let text = match error {
            Some(error) => json!({ "error": error.json() }),
            None => json!({}),
        };
        // Whoever no longer listens need not know the end.
        self.0.send(frame(2, text.to_string().as_bytes())).await.unwrap_or_default();
    }

    /// Returns when the client has gone away.
    pub(crate) async fn left(&self) {
        self.0.closed().await;
    }
}

/// A stream that is over before it began.
pub(crate) fn failed(error: &RpcError) -> Response {
    let text = json!({ "error": error.json() }).to_string();
    typed("application/connect+json", Body::from(frame(2, text.as_bytes())))
}

fn frame(flags: u8, text: &[u8]) -> Bytes {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = Vec::with_capacity(text.len() + 5);
    frame.push(flags);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(text);
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_taken_apart_and_cut_ones_are_refused() {
        let mut body = frame(0, b"{\"a\":1}").to_vec();
        body.extend_from_slice(&frame(0, b"{}"));
        body.extend_from_slice(&frame(2, b"{}"));
        assert_eq!(envelopes(&body).unwrap(), [&b"{\"a\":1}"[..], b"{}"]);
        assert!(envelopes(&body[..body.len() - 1]).is_err());
        assert!(envelopes(&[0, 255, 255, 255, 255]).is_err());
    }
}
