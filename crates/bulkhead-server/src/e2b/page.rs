//! Pages of lists, each with the name of the one after it.

use axum::response::Response;
use serde_json::Value;

use super::error::{ApiError, json_body};

/// The most on a page.
const PAGE: usize = 100;

/// What a query says under this name.
pub(super) fn said<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
}

/// The page of `all` that `query` asks for. It begins after the one whose id is `nextToken`.
pub(super) fn page<T>(
    query: &[(String, String)],
    all: &[T],
    id: impl Fn(&T) -> &str,
    object: impl Fn(&T) -> Value,
) -> Result<Response, ApiError> {
    let limit = match said(query, "limit").map(str::parse) {
        None => PAGE,
        Some(Ok(limit)) if (1..=PAGE).contains(&limit) => limit,
        Some(_) => return Err(ApiError::new(400, "invalid limit")),
    };
    let from = match said(query, "nextToken") {
        None => 0,
        Some(token) => match all.iter().position(|it| id(it) == token) {
            Some(at) => at + 1,
            None => return Err(ApiError::new(400, "invalid nextToken")),
        },
    };
    let shown: Vec<&T> = all.iter().skip(from).take(limit).collect();
    let more = from + shown.len() < all.len();
    let mut response = json_body(200, &shown.iter().map(|it| object(it)).collect());
    if let Some(last) = shown.last().filter(|_| more)
        && let Ok(token) = id(last).parse()
    {
        response.headers_mut().insert("x-next-token", token);
    }
    Ok(response)
}
