//! A context: names that live on from one piece of code to the next.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    link::{Ended, Link, Slot},
    report::{Living, What},
};
use crate::random;

/// The home directory of every room.
const HOME: &str = "/home/user";

/// What cannot be had, as a status and a text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refused {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Refused {
    pub(super) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

/// A context of a room.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: String,
    pub(super) language: String,
    pub(super) cwd: String,
    env: BTreeMap<String, String>,
    /// Whether it is the one for pieces that name only a language.
    pub(super) usual: bool,
    /// Held by whoever runs a piece: one at a time, in the order in which they came.
    pub(super) life: Mutex<Life>,
    /// The slot of the life that goes on, 0 if none does.
    now: AtomicU64,
    removed: AtomicBool,
}

/// The process of a context, if it has one.
#[derive(Debug, Default)]
pub(super) struct Life {
    slot: Option<Slot>,
    /// What its next user must know.
    pub(super) note: Option<&'static str>,
}

impl Context {
    /// A context that is wanted; its process starts later.
    pub(super) fn new(
        language: &str,
        cwd: Option<String>,
        env: BTreeMap<String, String>,
    ) -> io::Result<Self> {
        Ok(Self {
            id: id()?,
            language: language.to_owned(),
            cwd: cwd.unwrap_or_else(|| HOME.to_owned()),
            env,
            usual: false,
            life: Mutex::default(),
            now: AtomicU64::new(0),
            removed: AtomicBool::new(false),
        })
    }

    /// The one for pieces that name only a language.
    pub(super) fn usual(language: &str) -> Result<Self, Refused> {
        let context = Self::new(language, None, BTreeMap::new());
        let context = context.map_err(|error| Refused::new(500, error.to_string()))?;
        Ok(Self { usual: true, ..context })
    }

    /// One that lives already.
    pub(super) fn again(slot: Slot, living: Living) -> Self {
        Self {
            id: living.id,
            language: living.language,
            cwd: living.cwd,
            env: BTreeMap::new(),
            usual: living.usual,
            now: AtomicU64::new(slot.number),
            life: Mutex::new(Life { slot: Some(slot), note: None }),
            removed: AtomicBool::new(false),
        }
    }

    /// What clients are told of it.
    pub(super) fn described(&self) -> Value {
        json!({ "id": self.id, "language": self.language, "cwd": self.cwd })
    }

    /// Whether somebody has removed it.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// The slot of `life`, begun if there is none.
    pub(super) async fn slot<'a>(
        &self,
        life: &'a mut Life,
        link: &Arc<Link>,
    ) -> Result<&'a mut Slot, Refused> {
        let slot = match life.slot.take() {
            Some(slot) if slot.link.lives() => slot,
            Some(_) | None => self.begun(link).await?,
        };
        self.now.store(slot.number, Ordering::Release);
        Ok(life.slot.insert(slot))
    }

    async fn begun(&self, link: &Arc<Link>) -> Result<Slot, Refused> {
        let mut slot = link.slot();
        let order = json!({
            "op": "open",
            "slot": slot.number,
            "id": self.id,
            "language": self.language,
            "cwd": self.cwd,
            "usual": self.usual,
            "env": self.env,
        });
        link.order(&order).await?;
        while let Some(report) = slot.soon().await? {
            match report.what {
                What::Opened => return Ok(slot),
                What::Failed(text) => return Err(Refused::new(400, text)),
                What::Died(how) => {
                    return Err(Refused::new(500, format!("the context ended: {how}")));
                }
                What::Out(_)
                | What::Err(_)
                | What::Dropped
                | What::Count(_)
                | What::Shown(..)
                | What::Fault(_)
                | What::Done
                | What::Hello(_) => {}
            }
        }
        Err(Ended.into())
    }

    /// Ends its process, whatever that does; the next piece starts another.
    pub(super) async fn end(&self, link: &Arc<Link>) -> Result<(), Refused> {
        let slot = self.now.swap(0, Ordering::AcqRel);
        if slot != 0 && link.close(slot).await.is_err() {
            return Err(Ended.into());
        }
        // Whoever runs a piece in it has heard of the end and lets go.
        let mut life = self.life.lock().await;
        if life.slot.as_ref().is_some_and(|it| it.number == slot) {
            life.slot = None;
        }
        Ok(())
    }

    /// The same, and nobody runs anything in it any more.
    pub(super) async fn remove(&self, link: &Arc<Link>) -> Result<(), Refused> {
        self.removed.store(true, Ordering::Release);
        self.end(link).await
    }
}

impl Life {
    /// Its process is no more.
    pub(super) fn over(&mut self) {
        self.slot = None;
    }
}

/// A name in the form that clients are used to.
fn id() -> io::Result<String> {
    let token = random::token()?;
    let part = |from: usize, to: usize| token.get(from..to).unwrap_or_default();
    let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    Ok(parts.join("-"))
}
