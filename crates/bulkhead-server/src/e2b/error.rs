//! What went wrong, in the words that the clients parse.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::json;

/// A refusal of the control plane.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: u16,
    message: String,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
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
        plain(self.status, &self.message)
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
