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
    page::page,
};
use crate::{
    clock::rfc3339,
    house::House,
    secrets::{Label, SecretError},
};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<House>>;

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
    let all = house.secrets.list().map_err(|it| refused(&it))?;
    page(&query, &all, |it| &it.id, object)
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
