//! Bulkhead's own API.
//!
//! ```text
//! request ─▶ guard (name, page, key) ─▶ idempotency ─▶ the call ─▶ room ─▶ shim
//! ```
//!
//! Invariant: every call is in the list of [`operations`], which the router and the document are
//! both made from; each says what scope it needs.

mod ask;
mod checkpoints;
mod events;
mod exec;
mod files;
#[cfg(test)]
mod fuzz;
pub(crate) mod guard;
mod idempotency;
pub(crate) mod meters;
mod metrics;
mod openapi;
mod operation;
mod output;
mod page;
mod ports;
pub(crate) mod problem;
mod programs;
mod room;
mod sandboxes;
mod server;
mod sse;
mod stream;
mod view;
mod wanted;
pub mod words;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bulkhead_engine::rooms::Record;
use tokio::sync::{Semaphore, watch};

pub use self::stream::PROTOCOL;
pub(crate) use self::{
    files::check_archive,
    wanted::{DAEMON, image},
};
use self::{
    guard::{Names, Post},
    idempotency::Ledger,
    metrics::Tally,
    operation::{Operation, Repeat},
    problem::{Kind, Problem},
    words::{BackendReport, NewSandbox, ProblemView},
};
use crate::house::{Base, House};

/// The most streams at once.
const LISTENERS: usize = 1024;

/// What the API needs beside rooms.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The record of what happened.
    pub events: PathBuf,
    /// Names that the server goes by, beside those of loopback.
    pub names: Vec<String>,
    /// Whether it listens on every address of the host.
    pub everywhere: bool,
    /// What each backend upholds, as soon as that is known.
    pub backends: watch::Receiver<Option<Vec<BackendReport>>>,
}

/// What the API knows.
#[derive(Debug)]
pub(crate) struct Api {
    names: Names,
    events: PathBuf,
    backends: watch::Receiver<Option<Vec<BackendReport>>>,
    ledger: Ledger,
    tally: Tally,
    description: String,
    listeners: Arc<Semaphore>,
}

impl Api {
    pub(crate) fn of(settings: Settings, state: &Path) -> Self {
        let Settings { events, names, everywhere, backends } = settings;
        let said = names.iter().map(|it| it.to_ascii_lowercase()).collect();
        let ledger = Ledger::at(state.join("idempotency"));
        ledger.sweep();
        Self {
            names: Names { said, everywhere },
            events,
            backends,
            ledger,
            tally: Tally::default(),
            description: description(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
        }
    }
}

impl House {
    /// A place among those who listen; there are so many and no more.
    fn listen(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.api.listeners).try_acquire_owned();
        place.map_err(|_| {
            Problem::new(Kind::Busy, format!("{LISTENERS} streams are open already"))
        })
    }
}

/// Every call.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = sandboxes::operations();
    all.extend(checkpoints::operations());
    all.extend(programs::operations());
    all.push(exec::operation());
    all.push(output::logs_operation());
    all.extend(files::operations());
    all.extend(ports::operations());
    all.push(events::operation());
    all.push(stream::operation());
    all.extend(server::operations());
    all.push(metrics::operation());
    all
}

/// The description of the API, as JSON.
pub fn description() -> String {
    let mut text = format!("{:#}", openapi::document(&operations()));
    text.push('\n');
    text
}

/// What is written down of the sandbox `id` as it is `wanted`, made from `base`.
pub fn record(base: &Base, id: &str, wanted: NewSandbox) -> Result<Record, Box<ProblemView>> {
    wanted::record(base, id, wanted).map_err(|problem| Box::new(problem.view()))
}

/// The doors of the API.
pub(crate) fn router(house: &Arc<House>) -> Router {
    let mut router: Router<Arc<House>> = Router::new();
    for operation in operations() {
        let Operation { path, id, need, repeat, mut handler, .. } = operation;
        if repeat == Repeat::Once {
            let once = middleware::from_fn_with_state(Arc::clone(house), idempotency::once);
            handler = handler.layer(once);
        }
        let post = Post { house: Arc::clone(house), need };
        let handler = handler
            .layer(middleware::from_fn_with_state(post, guard::admit))
            .layer(middleware::from_fn_with_state((Arc::clone(house), id), count));
        router = router.route(path, handler);
    }
    router
        .method_not_allowed_fallback(async || {
            Problem::new(Kind::MethodNotAllowed, "the call has another method")
        })
        .fallback(async || {
            Problem::new(Kind::NoSuchCall, "there is no such call")
                .hint("GET /openapi.json lists them")
        })
        .with_state(Arc::clone(house))
}

async fn count(
    State((house, id)): State<(Arc<House>, &'static str)>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    house.meters.answered(id, response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_that_is_kept_is_the_one_that_is_served() {
        let kept = include_str!("../../../docs/openapi.json");
        let hint = "cargo run -p bulkhead-server --example openapi > docs/openapi.json";
        assert!(kept == description(), "docs/openapi.json is not up to date: {hint}");
    }

    #[test]
    fn every_call_has_a_name_of_its_own_and_says_what_it_needs() {
        let document: Value = serde_json::from_str(&description()).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for path in document["paths"].as_object().unwrap().values() {
            for (_, call) in path.as_object().unwrap() {
                assert!(names.insert(call["operationId"].as_str().unwrap().to_owned()));
                assert!(call["description"].as_str().unwrap().starts_with("Needs "));
            }
        }
        assert_eq!(names.len(), operations().len());
    }
}
