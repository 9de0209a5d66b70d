//! Which door a request is at.
//!
//! A request for something inside a room says so by two headers or by its host name; all others
//! are about rooms.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::HeaderMap;
use tower_service::Service as _;

use crate::{
    api::{self, guard},
    e2b,
    house::House,
};

/// The port that stands for the room itself.
const ITSELF: u16 = 49_983;

/// Something inside a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) room: String,
    pub(crate) port: u16,
}

/// All doors of a house.
#[derive(Debug)]
pub(crate) struct Doors {
    house: Arc<House>,
    control: Router,
    api: Router,
}

impl Doors {
    pub(crate) fn of(house: Arc<House>) -> Self {
        let api = api::router(&house);
        Self { control: e2b::control::router(Arc::clone(&house)), api, house }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request) -> Response<Body> {
        let wanted = inside(request.headers(), request.uri().host());
        // Servers inside have pages of their own, which may ask them for more.
        let own = [ITSELF, e2b::interpreter::PORT];
        let foreign = matches!(&wanted, Ok(Some(it)) if !own.contains(&it.port));
        let origin = if foreign { Ok(()) } else { guard::check_origin(&request) };
        if let Err(problem) = guard::check(&self.house, &request).and(origin) {
            return problem.into_response();
        }
        match wanted {
            Ok(Some(inside)) => e2b::envd::answer(&self.house, inside, request).await,
            Ok(None) if request.uri().path() == "/files" => {
                e2b::envd::signed(&self.house, request).await
            }
            Ok(None) if ours(request.uri().path()) => {
                match self.api.clone().call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
            Ok(None) => match self.control.clone().call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(message) => e2b::error::plain(400, message),
        }
    }
}

/// Whether a path is one of our own API.
fn ours(path: &str) -> bool {
    let own = ["/v1", "/healthz", "/readyz", "/metrics", "/openapi.json"];
    own.contains(&path) || path.starts_with("/v1/")
}

/// What inside a room is meant, if anything.
fn inside(headers: &HeaderMap, target: Option<&str>) -> Result<Option<Inside>, &'static str> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let host = text("host").or(target).unwrap_or_default();
    match (text("e2b-sandbox-id"), text("e2b-sandbox-port")) {
        (Some(room), Some(port)) => {
            let port = port.parse().map_err(|_| "invalid port")?;
            named(room, port).map(Some)
        }
        (Some(_), None) | (None, Some(_)) => Err("missing header"),
        (None, None) => by_host(host),
    }
}

/// `PORT-ROOM.domain`
fn by_host(host: &str) -> Result<Option<Inside>, &'static str> {
    let label = host.split('.').next().unwrap_or_default();
    let Some((port, room)) = label.split_once('-') else { return Ok(None) };
    match port.parse() {
        Ok(port) if host.contains('.') => named(room, port).map(Some),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn named(room: &str, port: u16) -> Result<Inside, &'static str> {
    let fine = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    if room.is_empty() || 64 < room.len() || !room.bytes().all(fine) {
        return Err("invalid sandbox id");
    }
    Ok(Inside { room: room.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(headers: &[(&'static str, &'static str)]) -> Result<Option<Inside>, &'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        inside(&map, None)
    }

    #[test]
    fn headers_and_host_names_lead_into_rooms() {
        let room = |port| Ok(Some(Inside { room: "iabc".to_owned(), port }));
        assert_eq!(
            by(&[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", "49983")]),
            room(49983)
        );
        assert_eq!(by(&[("host", "3000-iabc.bulkhead.test:8443")]), room(3000));
        assert_eq!(by(&[("host", "api.bulkhead.test")]), Ok(None));
        assert_eq!(by(&[("host", "127.0.0.1:3000")]), Ok(None));
        assert_eq!(by(&[("e2b-sandbox-id", "iabc")]), Err("missing header"));
        let odd = [("e2b-sandbox-id", "../x"), ("e2b-sandbox-port", "1")];
        assert_eq!(by(&odd), Err("invalid sandbox id"));
    }
}
