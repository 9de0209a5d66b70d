//! What a request says, read strictly.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
};
use bulkhead_spec::GuestPath;
use http::{HeaderMap, header::CONTENT_TYPE, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};

/// The longest request that is held in memory.
pub(crate) const MOST: usize = 4 << 20;
/// The longest time that anybody may ask for.
const LONGEST: f64 = 366.0 * 86_400.0;

/// A body in JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// A body in JSON, which may be left out.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

/// The query.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// What the path names.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let path = path.map_err(|error| Problem::malformed(error.body_text()))?;
        Ok(Self(path.0))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        is_json(request.headers())?;
        let body = whole(request.into_body()).await?;
        parsed(&body).map(Self)
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let form = request.headers().contains_key(CONTENT_TYPE);
        if form {
            is_json(request.headers())?;
        }
        let body = whole(request.into_body()).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        if !form {
            return Err(media_type());
        }
        parsed(&body).map(Self)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::malformed(error.body_text()))?;
        Ok(Self(query.0))
    }
}

/// The whole body; one that is too long is refused before it is read to its end.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Problem> {
    match Limited::new(body, MOST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Problem::new(Kind::TooLarge, format!("at most {MOST} bytes are taken")))
        }
        Err(error) => Err(Problem::malformed(format!("the body broke off: {error}"))),
    }
}

/// What a browser sends without asking first is never JSON (THREATS E2).
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let form = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let form = form.split(';').next().unwrap_or_default().trim();
    if form.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(media_type()) }
}

fn media_type() -> Problem {
    Problem::new(Kind::MediaType, "the body is to be application/json")
}

/// Reads a body. This is the only way from bytes to words.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // A list would be taken for the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::malformed("the body is to be an object"));
    }
    serde_json::from_slice(body).map_err(|error| Problem::malformed(error.to_string()))
}

/// So many seconds.
pub(crate) fn seconds(name: &str, count: f64) -> Result<Duration, Problem> {
    let fine = count.is_finite() && (0.0..=LONGEST).contains(&count);
    let length = fine.then(|| Duration::try_from_secs_f64(count).ok()).flatten();
    length.ok_or_else(|| {
        Problem::malformed(format!("`{name}` is a number of seconds, from 0 to {LONGEST}"))
    })
}

/// A directory inside.
pub(crate) fn directory(path: &str) -> Result<GuestPath, Problem> {
    path.parse().map_err(|error| Problem::malformed(format!("`cwd`: {error}")))
}
