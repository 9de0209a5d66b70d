//! The server itself.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, header::CONTENT_TYPE};

use super::{
    operation::{Gives, Need, Operation, call},
    words::{Capabilities, Health},
};
use crate::house::House;

/// The calls.
pub(super) fn operations() -> Vec<Operation> {
    let get = &Method::GET;
    vec![
        call(get, "/healthz", ("getHealth", "Whether the server lives"), health)
            .needs(Need::Nothing)
            .gives::<Health>(200),
        call(get, "/readyz", ("getReadiness", "Whether it can make sandboxes"), ready)
            .needs(Need::Nothing)
            .gives::<Health>(200),
        call(get, "/openapi.json", ("getDescription", "This description"), described)
            .needs(Need::Nothing)
            .answers(200, Gives::Bytes("application/json")),
        call(
            get,
            "/v1/capabilities",
            ("getCapabilities", "What each backend of this host upholds"),
            capabilities,
        )
        .gives::<Capabilities>(200),
    ]
}

async fn health() -> Answer<Health> {
    Answer(Health { status: "ok".to_owned() })
}

/// Ready is who can read the rooms, the keys and the record.
async fn ready(State(house): State<Arc<House>>) -> Response {
    let trouble = if house.journal.list().is_err() {
        Some("the journal of rooms cannot be read")
    } else if house.keys.list().is_err() {
        Some("the keys cannot be read")
    } else if house.is_closing() {
        Some("the server is stopping")
    } else {
        None
    };
    match trouble {
        None => Answer(Health { status: "ok".to_owned() }).into_response(),
        Some(status) => {
            let health = Health { status: status.to_owned() };
            (StatusCode::SERVICE_UNAVAILABLE, Answer(health)).into_response()
        }
    }
}

async fn described(State(house): State<Arc<House>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], house.api.description.clone()).into_response()
}

async fn capabilities(State(house): State<Arc<House>>) -> Answer<Capabilities> {
    let mut known = house.api.backends.clone();
    // They are looked at while the server starts, which may take a daemon some time.
    let backends =
        known.wait_for(Option::is_some).await.map(|it| it.clone().unwrap_or_default());
    Answer(Capabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        default_backend: house.base.backend.clone(),
        backends: backends.unwrap_or_default(),
    })
}
