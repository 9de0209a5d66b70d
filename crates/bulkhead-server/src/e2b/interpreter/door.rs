//! The calls of port 49999.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    context::{Context, Refused},
    run::{Audience, Piece, run},
};
use crate::{
    e2b::{envd::absolute, error::json_body},
    house::Tenant,
    keys::same,
    wire::Wire,
};

/// The longest request.
const MOST: usize = 8 << 20;

type Answer = Result<Response, Refused>;

/// Answers a request for the interpreter of a room.
pub(crate) async fn answer(tenant: Arc<Tenant>, request: Request) -> Response {
    let wire = request.extensions().get::<Wire>().cloned();
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MOST).collect().await else {
        return told(&Refused::new(413, "the request is too long"));
    };
    let (body, path) = (body.to_bytes(), parts.uri.path());
    let words: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
    let answer = match (&parts.method, words.as_slice()) {
        (&Method::GET, ["health"]) => Ok(json_body(200, &Value::from("OK"))),
        (&Method::POST, ["execute"]) => match locked(&tenant, &parts.headers) {
            Ok(()) => execute(tenant, wire, &body).await,
            Err(refused) => Err(refused),
        },
        (&Method::GET, ["contexts"]) => list(&tenant).await,
        (&Method::POST, ["contexts"]) => create(&tenant, &body).await,
        (&Method::DELETE, ["contexts", id]) => remove(&tenant, id).await,
        (&Method::POST, ["contexts", id, "restart"]) => restart(&tenant, id).await,
        _ => Err(Refused::new(404, "there is no such call of the interpreter")),
    };
    answer.unwrap_or_else(|refused| told(&refused))
}

/// Clients show the text of an answer as it is.
fn told(refused: &Refused) -> Response {
    let mut response = Response::new(Body::from(refused.text.clone()));
    let status = StatusCode::from_u16(refused.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// Code runs only for those who have the token. Clients send it with no other call.
fn locked(tenant: &Tenant, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(access) = &tenant.facts.access else { return Ok(()) };
    let given = headers.get("x-access-token").and_then(|it| it.to_str().ok());
    if given.is_some_and(|it| same(it, access)) {
        return Ok(());
    }
    Err(Refused::new(401, "unauthorized access, please provide a valid access token"))
}

#[derive(Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

async fn execute(tenant: Arc<Tenant>, wire: Option<Wire>, body: &[u8]) -> Answer {
    let asked: Execute = parsed(body)?;
    let language = asked.language.as_deref().filter(|it| !it.is_empty());
    let context = match (asked.context_id.as_deref(), language) {
        (Some(_), Some(_)) => {
            let text = "Only one of context_id or language can be provided";
            return Err(Refused::new(400, text));
        }
        (Some(id), None) => tenant.interpreter.context(&tenant, id).await?,
        (None, language) => tenant.interpreter.usual(&tenant, &named(language)?).await?,
    };
    prepare(&tenant, &context).await?;
    let piece = Piece { code: asked.code, env: asked.env_vars.unwrap_or_default() };
    let (to, from) = mpsc::channel(16);
    let binding = wire.map(|it| tenant.bind(it));
    tokio::spawn(async move {
        run(tenant, context, piece, Audience::new(to)).await;
        drop(binding);
    });
    Ok(streamed(from))
}

/// Begins a context that has not begun, so that whoever asks learns at once that it cannot.
async fn prepare(tenant: &Tenant, context: &Context) -> Result<(), Refused> {
    // Somebody who runs a piece has begun it.
    let Ok(mut life) = context.life.try_lock() else { return Ok(()) };
    let link = tenant.interpreter.link(tenant).await?;
    let begun = context.slot(&mut life, &link).await.map(drop);
    if begun.is_err() && context.usual {
        tenant.interpreter.forget(&context.id).await;
    }
    begun
}

/// An answer that comes line by line.
fn streamed(from: mpsc::Receiver<Bytes>) -> Response {
    let lines = stream::unfold(from, async |mut from| {
        let line = from.recv().await?;
        Some((Ok::<_, Infallible>(line), from))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn list(tenant: &Tenant) -> Answer {
    let contexts = tenant.interpreter.contexts(tenant).await?;
    let all: Vec<Value> = contexts.iter().map(|it| it.described()).collect();
    Ok(json_body(200, &Value::Array(all)))
}

#[derive(Deserialize)]
struct Create {
    language: Option<String>,
    cwd: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

async fn create(tenant: &Tenant, body: &[u8]) -> Answer {
    let asked: Create = parsed(body)?;
    let cwd = asked.cwd.filter(|it| !it.is_empty()).map(|it| absolute(&it));
    let env = asked.env_vars.unwrap_or_default();
    let context = Context::new(&named(asked.language.as_deref())?, cwd, env);
    let context = Arc::new(context.map_err(|error| Refused::new(500, error.to_string()))?);
    tenant.interpreter.add(tenant, &context).await?;
    if let Err(refused) = prepare(tenant, &context).await {
        tenant.interpreter.forget(&context.id).await;
        return Err(refused);
    }
    Ok(json_body(200, &context.described()))
}

async fn remove(tenant: &Tenant, id: &str) -> Answer {
    let context = tenant.interpreter.context(tenant, id).await?;
    tenant.interpreter.forget(id).await;
    let link = tenant.interpreter.link(tenant).await?;
    context.remove(&link).await?;
    Ok(json_body(200, &Value::Null))
}

async fn restart(tenant: &Tenant, id: &str) -> Answer {
    let context = tenant.interpreter.context(tenant, id).await?;
    let link = tenant.interpreter.link(tenant).await?;
    context.end(&link).await?;
    Ok(json_body(200, &Value::Null))
}

/// The language that is meant, by its full name.
fn named(language: Option<&str>) -> Result<String, Refused> {
    let language = language.unwrap_or("python").trim().to_lowercase();
    let language = match language.as_str() {
        "" => "python",
        "js" => "javascript",
        "ts" => "typescript",
        "sh" => "bash",
        other => other,
    };
    if 32 < language.len() {
        return Err(Refused::new(400, "there is no language with such a long name"));
    }
    Ok(language.to_owned())
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Refused::new(422, error.to_string()))
}
