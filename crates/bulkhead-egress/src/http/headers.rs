//! Headers that are between two neighbours, and what they may not be used for.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// What never goes further than one hop.
const HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// What decides where a message goes and where it ends.
const LOAD_BEARING: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// Whether a request wants to become something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// No, or to something that is not passed on.
    None,
    /// A WebSocket.
    WebSocket,
}

/// Refuses spellings that some server takes for a header that decides something.
///
/// CGI and its heirs turn `-` into `_`, and some turn it back.
pub(crate) fn check(map: &HeaderMap) -> Result<(), &'static str> {
    for name in map.keys() {
        let name = name.as_str();
        let plain = name.replace(['_', '.'], "-");
        if plain != name && LOAD_BEARING.contains(&plain.as_str()) {
            return Err("a header is spelled so that it could be taken for another");
        }
    }
    let load_bearing = |it: &str| LOAD_BEARING.contains(&it);
    if named_by_connection(map).any(|it| load_bearing(&it) && it != "connection") {
        return Err("Connection names a header that is not its own");
    }
    Ok(())
}

/// The value of a header that there may be one of.
pub(crate) fn only<'a>(
    map: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, &'static str> {
    let mut all = map.get_all(name).iter();
    match (all.next(), all.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err("a header that there may be one of is there twice"),
    }
}

/// Whether the connection ends with this message.
pub(crate) fn closes(map: &HeaderMap) -> bool {
    named_by_connection(map).any(|it| it == "close")
}

/// What a request wants to become.
pub(crate) fn upgrade(map: &HeaderMap, method: &Method) -> Upgrade {
    let wanted = map.get(header::UPGRADE);
    let wanted = wanted.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let named = named_by_connection(map).any(|it| it == "upgrade");
    if wanted && named && method == Method::GET { Upgrade::WebSocket } else { Upgrade::None }
}

/// Removes what is between two neighbours only.
pub(crate) fn strip(map: &mut HeaderMap) {
    let named: Vec<_> = named_by_connection(map).collect();
    for name in named.iter().map(String::as_str).chain(HOP) {
        map.remove(name);
    }
    let spelled =
        |name: &&HeaderName| HOP.contains(&name.as_str().replace(['_', '.'], "-").as_str());
    let odd: Vec<_> = map.keys().filter(spelled).cloned().collect();
    for name in odd {
        map.remove(name);
    }
}

fn named_by_connection(map: &HeaderMap) -> impl Iterator<Item = String> {
    map.get_all(header::CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .map(|it| it.trim().to_ascii_lowercase())
        .filter(|it| !it.is_empty())
}
