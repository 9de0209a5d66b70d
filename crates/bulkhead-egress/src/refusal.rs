//! A no that can be read, by people and by the programs that would otherwise try again.

use bulkhead_policy::Reason;
use http::StatusCode;
use serde::Serialize;

use crate::{dial::DialFailed, gate::Denied};

/// An answer of the gateway itself.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its body, in JSON.
    pub(crate) body: String,
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    host: &'a str,
    port: u16,
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_with: Option<String>,
    retry: bool,
}

impl Answer {
    /// What a program is told that was refused.
    pub(crate) fn denied(denied: &Denied) -> Self {
        let (status, error) = match &denied.refusal.reason {
            Reason::Spent(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "a limit of this sandbox is used up")
            }
            Reason::NoRule | Reason::Rule(_) | Reason::Ceiling | Reason::Forbidden(_) => {
                (StatusCode::FORBIDDEN, "bulkhead does not let this sandbox reach this host")
            }
        };
        let body = Body {
            error,
            host: &denied.host,
            port: denied.port,
            rule: denied.refusal.reason.to_string(),
            allow_with: denied.refusal.allow_with.as_ref().map(|it| format!("--allow '{it}'")),
            retry: false,
        };
        Self::new(status, &body)
    }

    /// What a program is told whose host did not answer.
    pub(crate) fn failed(host: &str, port: u16, failed: &DialFailed) -> Self {
        let (status, rule) = match failed {
            DialFailed::Forbidden => (StatusCode::FORBIDDEN, failed.to_string()),
            DialFailed::Unresolved(why) | DialFailed::Unreached(why) => {
                (StatusCode::BAD_GATEWAY, format!("{failed}: {why}"))
            }
        };
        let error = "bulkhead could not connect to this host";
        let retry = status != StatusCode::FORBIDDEN;
        Self::new(status, &Body { error, host, port, rule, allow_with: None, retry })
    }

    /// What a program is told that said something odd.
    pub(crate) fn plain(status: StatusCode, error: &str) -> Self {
        #[derive(Serialize)]
        struct Plain<'a> {
            error: &'a str,
            retry: bool,
        }
        Self::new(status, &Plain { error, retry: false })
    }

    fn new(status: StatusCode, body: &impl Serialize) -> Self {
        let mut body = serde_json::to_string(body).unwrap_or_default();
        body.push('\n');
        Self { status, body }
    }

    /// The whole of it as HTTP/1.1, after which the connection ends.
    pub(crate) fn to_http(&self) -> String {
        let Self { status, body } = self;
        // The SDKs of models look for the last header before they try again.
        format!(
            "HTTP/1.1 {} {}\r\nServer: bulkhead\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\nX-Should-Retry: false\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            body.len(),
        )
    }
}
