//! Code that is run piece by piece: contexts in which names live on from one piece to the next.
//!
//! Contexts are programs of the room, behind its walls. One program in each room, the supervisor,
//! holds them all: a context of Python is a fork of it and costs a millisecond, the others are
//! programs that it starts. The server speaks with the supervisor over its input and output.
//!
//! ```text
//! POST /execute ─▶ door ─▶ run ─▶ context (one piece at a time) ─▶ link ─▶ supervisor ─▶ context
//! ```
//!
//! Invariant: every byte that comes from a room is hostile. A report that makes no sense is dropped,
//! and one that is too long, or that comes though nothing was owed, ends the supervisor.

mod context;
mod door;
mod lines;
mod link;
mod report;
mod run;
mod scripts;

use std::sync::Arc;

use tokio::sync::Mutex;

use self::{
    context::{Context, Refused},
    link::{Ended, Link},
    report::Living,
};
pub(crate) use self::{door::answer, report::check as check_report};
use crate::house::Tenant;

/// The port that stands for the interpreter of a room.
pub(crate) const PORT: u16 = 49_999;
/// By this tag the supervisor is known among the programs of a room.
pub(crate) const TAG: &str = "bulkhead.interpreter";
/// The most contexts of one room.
const CONTEXTS: usize = 64;
/// What every room has from its beginning, if it has the programs.
const FIRST: [&str; 2] = ["python", "javascript"];

/// The contexts of one room.
#[derive(Debug, Default)]
pub(crate) struct Interpreter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Link>>,
    contexts: Vec<Arc<Context>>,
    before: Before,
}

/// Who may have begun already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nobody,
    /// A server before this one.
    Another,
}

impl Interpreter {
    /// That of a room which another server has made.
    pub(crate) fn adopted() -> Self {
        Self { state: Mutex::new(State { before: Before::Another, ..State::default() }) }
    }

    /// Starts the supervisor before anybody needs it.
    pub(crate) async fn warm(&self, tenant: &Tenant) {
        if let Err(error) = self.state.lock().await.link(tenant).await {
            tracing::debug!(%error, "an interpreter did not start ahead of time");
        }
    }

    /// The supervisor of the room, which is started if it does not run.
    async fn link(&self, tenant: &Tenant) -> Result<Arc<Link>, Refused> {
        self.state.lock().await.link(tenant).await
    }

    /// All contexts, the oldest first.
    async fn contexts(&self, tenant: &Tenant) -> Result<Vec<Arc<Context>>, Refused> {
        let mut state = self.state.lock().await;
        state.link(tenant).await?;
        Ok(state.contexts.clone())
    }

    /// The context called `id`.
    async fn context(&self, tenant: &Tenant, id: &str) -> Result<Arc<Context>, Refused> {
        let all = self.contexts(tenant).await?;
        let found = all.into_iter().find(|it| it.id == id);
        found.ok_or_else(|| Refused::new(404, format!("Context {id} not found")))
    }

    /// The context in which pieces run that name only their language.
    async fn usual(&self, tenant: &Tenant, language: &str) -> Result<Arc<Context>, Refused> {
        let mut state = self.state.lock().await;
        state.link(tenant).await?;
        if let Some(found) =
            state.contexts.iter().find(|it| it.usual && it.language == language)
        {
            return Ok(Arc::clone(found));
        }
        let context = Arc::new(Context::usual(language)?);
        state.add(&context)?;
        Ok(context)
    }

    /// Takes a new context in.
    async fn add(&self, tenant: &Tenant, context: &Arc<Context>) -> Result<(), Refused> {
        let mut state = self.state.lock().await;
        state.link(tenant).await?;
        state.add(context)
    }

    /// Forgets a context.
    async fn forget(&self, id: &str) {
        self.state.lock().await.contexts.retain(|it| it.id != id);
    }
}

impl State {
    async fn link(&mut self, tenant: &Tenant) -> Result<Arc<Link>, Refused> {
        if let Some(link) = self.link.as_ref().filter(|it| it.lives()) {
            return Ok(Arc::clone(link));
        }
        let (link, hello) = Link::open(tenant, std::mem::take(&mut self.before)).await?;
        self.link = Some(Arc::clone(&link));
        for living in hello.living {
            self.again(&link, living).await;
        }
        if self.contexts.is_empty() {
            let there = FIRST.iter().filter(|it| hello.languages.iter().any(|has| has == *it));
            for language in there {
                self.contexts.push(Arc::new(Context::usual(language)?));
            }
        }
        Ok(link)
    }

    /// Knows a context again that a server before this one has made.
    async fn again(&mut self, link: &Arc<Link>, living: Living) {
        if CONTEXTS <= self.contexts.len() {
            return;
        }
        // Whoever waited for a piece has gone with the server that it was asked of.
        if living.busy && link.interrupt(living.slot).await.is_err() {
            return;
        }
        self.contexts.push(Arc::new(Context::again(link.adopt(living.slot), living)));
    }

    fn add(&mut self, context: &Arc<Context>) -> Result<(), Refused> {
        if CONTEXTS <= self.contexts.len() {
            let text = format!("a sandbox has at most {CONTEXTS} contexts: remove one first");
            return Err(Refused::new(429, text));
        }
        self.contexts.push(Arc::clone(context));
        Ok(())
    }
}

impl From<Ended> for Refused {
    fn from(Ended: Ended) -> Self {
        Self::new(500, "the interpreter of this sandbox ended; the next call starts it again")
    }
}
