//! What went wrong, in the words that the clients parse.

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bulkhead_engine::rooms::Busy;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::json;

/// A refusal of the control plane.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: u16,
    message: String,
    /// When it is worth another try.
    retry: Option<Duration>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry: None }
    }

    /// There is no place for another room now. Clients take this status for a rate limit.
    pub(crate) fn busy(busy: &Busy) -> Self {
        Self { retry: Some(busy.retry), ..Self::new(429, busy.to_string()) }
    }

    /// What the client is told it is.
    #[cfg(test)]
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The room is not there.
    pub(crate) fn no_room(id: &str) -> Self {
        Self::new(404, format!("sandbox \"{id}\" doesn't exist or you don't have access to it"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = plain(self.status, &self.message);
        if let Some(retry) = self.retry {
            let seconds = HeaderValue::from(retry.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// An error with its status in the body too, where some clients look for it.
pub(crate) fn plain(status: u16, message: &str) -> Response {
    let mut response = json_body(status, &json!({ "code": status, "message": message }));
    // Nothing of this changes by asking again, unless it says so.
    let again = matches!(status, 429 | 503);
    let again = HeaderValue::from_static(if again { "true" } else { "false" });
    response.headers_mut().insert("should-retry", again);
    response
}

/// The answer for a room that cannot be reached.
pub(crate) fn unreachable(room: &str, message: &str) -> Response {
    of_room(502, room, message)
}

/// The answer to a client that has no token for the ports of a room.
pub(crate) fn closed(room: &str) -> Response {
    of_room(403, room, "this sandbox's ports need its traffic access token")
}

fn of_room(code: u16, room: &str, message: &str) -> Response {
    json_body(code, &json!({ "sandboxId": room, "message": message, "code": code }))
}

/// A JSON body with `status`.
pub(crate) fn json_body(status: u16, body: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
