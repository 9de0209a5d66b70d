//! Who may come in, looked at before anything else.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, Uri, header};

use super::{
    operation::Need,
    problem::{Kind, Problem},
};
use crate::{
    house::House,
    keys::{Key, Scope},
};

/// The longest key that is looked at.
const LONGEST: usize = 512;

/// How a request came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// By the socket, from this user or root, who could use the rooms without us.
    Owner,
    /// By the socket, from somebody else.
    Neighbour,
    /// By the network.
    Network,
}

/// Who makes a call.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) name: String,
}

/// The names that the server goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Those that somebody said.
    pub(crate) said: Vec<String>,
    /// Whether it listens on every address, so that any of them may be meant.
    pub(crate) everywhere: bool,
}

/// Refuses what comes under a foreign name, or from a foreign page.
pub(crate) fn check(house: &House, request: &Request) -> Result<(), Problem> {
    let host = host_of(request.headers(), request.uri());
    let arrival = request.extensions().get::<Arrival>().copied();
    // A page cannot reach a socket, so names mean nothing there.
    let by_network = arrival.is_none_or(|it| it == Arrival::Network);
    if by_network && !house.goes_by(host) {
        let text = format!("the server does not go by `{}`", bulkhead_spec::escape(host));
        return Err(Problem::new(Kind::ForeignHost, text)
            .hint("name it when you start the server: bulkhead serve --host-name NAME"));
    }
    Ok(())
}

/// Refuses requests of pages: browsers say where they come from. A page of the server itself comes
/// from the name that the request is for.
pub(crate) fn check_origin(request: &Request) -> Result<(), Problem> {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("null");
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let host = host_of(request.headers(), request.uri());
    if own.is_some_and(|it| it.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Problem::new(Kind::ForeignOrigin, "pages of other places may not come in"))
}

/// The name that the request is for, with its port.
fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    let said = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    said.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default()
}

impl House {
    /// Whether `host` is a name of this server.
    fn goes_by(&self, host: &str) -> bool {
        let name = without_port(host);
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            // What no packet can be sent to is nobody's name.
            let real = !address.is_unspecified();
            return real && (address.is_loopback() || self.api.names.everywhere)
                || self.api.names.said.contains(&name);
        }
        let below = |domain: &String| {
            let domain = without_port(domain).to_ascii_lowercase();
            name == domain || name.ends_with(&format!(".{domain}"))
        };
        name == "localhost"
            || self.api.names.said.contains(&name)
            || self.domain.as_ref().is_some_and(below)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => {
            // An address of IPv6 has colons of its own.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        Some(_) | None => host,
    }
}

/// What a call needs, for its guard.
#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) house: Arc<House>,
    pub(crate) need: Need,
}

/// Lets in whoever has a key that is good for the call.
pub(crate) async fn admit(
    State(post): State<Post>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Need::Key(needed) = post.need {
        let caller = identified(&post.house, &request, needed)?;
        request.extensions_mut().insert(caller);
    }
    Ok(next.run(request).await)
}

fn identified(house: &House, request: &Request, needed: Scope) -> Result<Caller, Problem> {
    let arrival = request.extensions().get::<Arrival>().copied();
    let Some(given) = key_in(request.headers()) else {
        if arrival == Some(Arrival::Owner) {
            return Ok(Caller { name: String::new() });
        }
        return Err(Problem::new(Kind::Unauthenticated, "there is no key in this request")
            .hint("send Authorization: Bearer KEY; `bulkhead key create NAME` makes one"));
    };
    let unknown = || Problem::new(Kind::Unauthenticated, "this key opens nothing here");
    let given = given.filter(|it| it.len() <= LONGEST).ok_or_else(unknown)?;
    let found: Option<Key> =
        house.keys.find(given).map_err(|error| Problem::internal(&error))?;
    let key = found.ok_or_else(unknown)?;
    if key.scope < needed {
        let text = format!("this call needs a key of scope `{}`", needed.name());
        return Err(Problem::new(Kind::Forbidden, text));
    }
    Ok(Caller { name: key.name })
}

/// The key of a request, if it has one; nothing in it if it cannot be read. One in the query is
/// none: it would be written down on its way.
#[expect(clippy::option_option, reason = "no key and one that cannot be read are different")]
fn key_in(headers: &HeaderMap) -> Option<Option<&str>> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok();
        return Some(text.and_then(|it| it.strip_prefix("Bearer ")).map(str::trim));
    }
    headers.get("x-api-key").map(|it| it.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_header_is_read(text in "[ -~]{0,60}") {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, text.parse().unwrap());
            let key = key_in(&headers);
            proptest::prop_assert!(key.is_some());
            drop(without_port(&text).to_owned());
        }
    }

    #[test]
    fn ports_are_told_from_addresses() {
        for (host, name) in [
            ("localhost:80", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("127.0.0.1:1", "127.0.0.1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
