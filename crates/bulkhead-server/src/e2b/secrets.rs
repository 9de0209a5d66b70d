//! Secrets as E2B's clients keep them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    control::parsed,
    error::{ApiError, json_body},
    filter::pairs,
};
use crate::{
    clock::rfc3339,
    house::House,
    secrets::{Label, SecretError},
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

/// The most on a page.
const PAGE: usize = 100;

pub(super) fn router() -> Router<Arc<House>> {
    Router::new()
        .route("/secrets", get(list).post(create))
        .route("/secrets/{id}", get(show).post(update).delete(remove))
}

#[derive(Deserialize)]
struct New {
    name: String,
    value: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Change {
    value: String,
    metadata: Option<BTreeMap<String, String>>,
}

async fn create(State(house): Shared, body: Bytes) -> Answer {
    let New { name, value, metadata } = parsed(&body)?;
    let made = house.secrets.create(&name, &value, metadata).map_err(|it| refused(&it))?;
    Ok(json_body(201, &object(&made)))
}

async fn update(State(house): Shared, Path(id): Path<String>, body: Bytes) -> Answer {
    let Change { value, metadata } = parsed(&body)?;
    let changed = house.secrets.update(&id, &value, metadata).map_err(|it| refused(&it))?;
    let changed = changed.ok_or_else(|| absent(&id))?;
    Ok(json_body(200, &object(&changed)))
}

async fn show(State(house): Shared, Path(id): Path<String>) -> Answer {
    let found = house.secrets.find(&id).map_err(|it| refused(&it))?;
    let found = found.ok_or_else(|| absent(&id))?;
    Ok(json_body(200, &object(&found)))
}

async fn remove(State(house): Shared, Path(id): Path<String>) -> Answer {
    if house.secrets.remove(&id).map_err(|it| refused(&it))? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(absent(&id))
    }
}

async fn list(State(house): Shared, RawQuery(query): RawQuery) -> Answer {
    let query = pairs(&query.unwrap_or_default());
    let said = |name: &str| query.iter().find(|(it, _)| it == name).map(|(_, it)| it.as_str());
    let limit = match said("limit").map(str::parse) {
        None => PAGE,
        Some(Ok(limit)) if (1..=PAGE).contains(&limit) => limit,
        Some(_) => return Err(ApiError::new(400, "invalid limit")),
    };
    let all = house.secrets.list().map_err(|it| refused(&it))?;
    // The id after which the page begins.
    let from = match said("nextToken") {
        None => 0,
        Some(token) => match all.iter().position(|it| it.id == token) {
            Some(at) => at + 1,
            None => return Err(ApiError::new(400, "invalid nextToken")),
        },
    };
    let page: Vec<&Label> = all.iter().skip(from).take(limit).collect();
    let more = all.len() > from + page.len();
    let mut response = json_body(200, &page.iter().map(|it| object(it)).collect());
    if let Some(last) = page.last().filter(|_| more)
        && let Ok(token) = last.id.parse()
    {
        response.headers_mut().insert("x-next-token", token);
    }
    Ok(response)
}

fn object(label: &Label) -> Value {
    let at = |micros| rfc3339(std::time::UNIX_EPOCH + Duration::from_micros(micros));
    json!({
        "secretID": label.id,
        "name": label.name,
        "currentVersion": label.version,
        "metadata": label.metadata,
        "createdAt": at(label.created),
        "updatedAt": at(label.updated),
    })
}

fn absent(id: &str) -> ApiError {
    ApiError::new(404, format!("secret '{id}' not found"))
}

pub(super) fn refused(error: &SecretError) -> ApiError {
    match error {
        SecretError::Taken(_) => ApiError::new(409, error.to_string()),
        SecretError::Name | SecretError::Value | SecretError::Metadata => {
            ApiError::new(400, error.to_string())
        }
        SecretError::System(source) => {
            tracing::error!(%source, "the secrets cannot be used");
            ApiError::new(500, error.to_string())
        }
    }
}
