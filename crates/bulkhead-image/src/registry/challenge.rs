//! What a registry wants before it answers.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;

use crate::{credentials::Credentials, http::NoAnswer};

/// The question behind a 401.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A name and a password.
    Basic,
    /// A token from `realm`.
    Bearer { realm: String, service: String },
}

impl Challenge {
    /// Reads `WWW-Authenticate`; a token goes before a password.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let all = headers.get_all(header::WWW_AUTHENTICATE);
        let texts: Vec<&str> = all.iter().filter_map(|it| it.to_str().ok()).collect();
        let scheme = |text: &&&str, name: &str| {
            text.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name))
        };
        let bearer = texts.iter().find(|it| scheme(it, "bearer "));
        if let Some(text) = bearer {
            let rest = text.get("bearer ".len()..)?;
            let realm = parameter(rest, "realm")?;
            let service = parameter(rest, "service").unwrap_or_default();
            return Some(Self::Bearer { realm, service });
        }
        texts.iter().find(|it| scheme(it, "basic")).map(|_| Self::Basic)
    }
}

/// The value of `name="…"`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        let (key, value) = rest.split_once('=')?;
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(',').unwrap_or((value, "")),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = after;
    }
}

/// Asks `realm` for a token with `scope`.
pub(super) fn token_request(
    realm: &str,
    service: &str,
    scope: &str,
    credentials: Option<&Credentials>,
) -> Result<Request<Full<Bytes>>, NoAnswer> {
    if let Some(Credentials::Identity(token)) = credentials {
        let form = format!(
            "grant_type=refresh_token&service={}&scope={}&client_id=bulkhead&refresh_token={}",
            encoded(service),
            encoded(scope),
            encoded(token.expose())
        );
        let mut ask = super::request(Method::POST, realm)?;
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        ask.headers_mut().insert(header::CONTENT_TYPE, kind);
        *ask.body_mut() = Full::from(form);
        return Ok(ask);
    }
    let joint =
        if realm.parse::<Uri>().is_ok_and(|it| it.query().is_some()) { '&' } else { '?' };
    let query = format!("service={}&scope={}", encoded(service), encoded(scope));
    let mut ask = super::request(Method::GET, &format!("{realm}{joint}{query}"))?;
    if let Some(Credentials::Basic(basic)) = credentials {
        let value = HeaderValue::from_str(&format!("Basic {}", basic.expose()));
        let mut value = value.map_err(|_| NoAnswer::new("the credentials are not base 64"))?;
        value.set_sensitive(true);
        ask.headers_mut().insert(header::AUTHORIZATION, value);
    }
    Ok(ask)
}

/// `text` as a part of a query or a form.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte.into());
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                out.extend(
                    char::from_digit(digit.into(), 16).map(|it| it.to_ascii_uppercase()),
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(text));
        Challenge::read(&headers)
    }

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: &str| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.to_owned() })
        };
        let text =
            r#"Bearer realm="https://auth.example/token",service="r.example",scope="x:y,z""#;
        assert_eq!(read(text), bearer("https://auth.example/token", "r.example"));
        let text = r#"bearer scope="a,realm=b", realm="https://a.example/t""#;
        assert_eq!(read(text), bearer("https://a.example/t", ""));
        assert_eq!(read(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(read("Bearer nothing"), None);
        assert_eq!(read("Negotiate"), None);
    }

    #[test]
    fn words_cannot_break_out_of_a_query() {
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }
}
