//! A call of the API: what it is, who may make it, and what answers it.
//!
//! The router and the document are made from the same list, so there is no call that is not
//! described and none that is described and not there.

use std::sync::Arc;

use axum::{handler::Handler, routing::MethodRouter};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{house::House, keys::Scope};

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Everybody.
    Nothing,
    /// Who has a key that is good for this.
    Key(Scope),
}

/// Whether a call can be repeated under an `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It is made each time.
    Anew,
    /// It is made once for each key.
    Once,
}

/// What the body of a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    /// There is none.
    Nothing,
    /// JSON.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// JSON, which may be left out.
    MaybeJson(fn(&mut SchemaGenerator) -> Schema),
    /// Bytes of this form.
    Bytes(&'static str),
}

/// What the body of an answer is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gives {
    /// There is none.
    Nothing,
    /// JSON.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Bytes of this form.
    Bytes(&'static str),
    /// JSON, or events for whoever accepts those.
    JsonOrEvents(fn(&mut SchemaGenerator) -> Schema),
    /// Events, `text/event-stream`.
    Events,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) need: Need,
    pub(crate) repeat: Repeat,
    pub(crate) query: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) takes: Takes,
    pub(crate) status: u16,
    pub(crate) gives: Gives,
    pub(crate) handler: MethodRouter<Arc<House>>,
}

/// A call that `handler` answers. `id` names it in the document.
pub(crate) fn call<H, T>(
    method: &Method,
    path: &'static str,
    (id, summary): (&'static str, &'static str),
    handler: H,
) -> Operation
where
    H: Handler<T, Arc<House>>,
    T: 'static,
{
    let filter = method.clone().try_into().unwrap_or(axum::routing::MethodFilter::GET);
    let looks = *method == Method::GET;
    Operation {
        method: method.clone(),
        path,
        id,
        summary,
        need: Need::Key(if looks { Scope::Read } else { Scope::Run }),
        repeat: Repeat::Anew,
        query: None,
        takes: Takes::Nothing,
        status: 200,
        gives: Gives::Nothing,
        handler: MethodRouter::new().on(filter, handler),
    }
}

impl Operation {
    /// Its query has the fields of `T`.
    #[must_use]
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// It takes a `T`.
    #[must_use]
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Takes::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// It takes a `T`, or nothing.
    #[must_use]
    pub(crate) fn may_take<T: JsonSchema>(mut self) -> Self {
        self.takes = Takes::MaybeJson(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// It takes bytes.
    #[must_use]
    pub(crate) fn takes_bytes(mut self, form: &'static str) -> Self {
        self.takes = Takes::Bytes(form);
        self
    }

    /// It gives a `T`.
    #[must_use]
    pub(crate) fn gives<T: JsonSchema>(mut self, status: u16) -> Self {
        self.status = status;
        self.gives = Gives::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// It gives a `T`, or events.
    #[must_use]
    pub(crate) fn gives_or_tells<T: JsonSchema>(mut self) -> Self {
        self.gives = Gives::JsonOrEvents(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// It gives nothing.
    #[must_use]
    pub(crate) fn gives_nothing(mut self) -> Self {
        self.status = 204;
        self
    }

    /// It gives bytes or events.
    #[must_use]
    pub(crate) fn answers(mut self, status: u16, gives: Gives) -> Self {
        self.status = status;
        self.gives = gives;
        self
    }

    /// Who may make it, where that is not told by its method.
    #[must_use]
    pub(crate) fn needs(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// It is made once for each `Idempotency-Key`.
    #[must_use]
    pub(crate) fn once(mut self) -> Self {
        self.repeat = Repeat::Once;
        self
    }
}

#[cfg(test)]
impl Operation {
    /// Whether something of a request is read for it besides its path.
    pub(crate) fn takes_something(&self) -> bool {
        self.query.is_some() || !matches!(self.takes, Takes::Nothing)
    }

    /// Whether a request for `path` is this call.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        let (own, asked) = (self.path.split('/'), path.split('/'));
        own.clone().count() == asked.clone().count()
            && own.zip(asked).all(|(own, asked)| own.starts_with('{') || own == asked)
    }
}
