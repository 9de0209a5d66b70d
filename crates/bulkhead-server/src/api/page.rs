//! Which sandboxes a list is about, and which page of it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bulkhead_engine::rooms::{Life, Listed};
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    problem::Problem,
    view,
    words::{SandboxInfo, SandboxPage, SandboxState},
};
use crate::house::House;

/// The most sandboxes on a page.
const PAGE: usize = 100;
/// How many are asked at once.
const AT_ONCE: usize = 16;

/// What a list is narrowed to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Filter {
    /// Only those with these labels: `key`, `key=value` or `key!=value`, separated by commas.
    labels: Option<String>,
    /// Only those in this state; `running` and `paused` and `changing` if not said.
    state: Option<SandboxState>,
    /// Also those that have ended.
    all: Option<bool>,
    /// How many at most; 100 if not said.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    Has(String),
    Is(String, String),
    IsNot(String, String),
}

impl Filter {
    /// The page.
    pub(super) async fn page(&self, house: &House) -> Result<SandboxPage, Problem> {
        let limit = limit(self.limit)?;
        let selectors = selectors(self.labels.as_deref().unwrap_or_default())?;
        let after = self.cursor.as_deref().map(position).transpose()?;
        let ended = self.all == Some(true) || self.state == Some(SandboxState::Ended);
        let mut rooms = house.journal.list()?;
        rooms.retain(|it| {
            (ended || it.life == Life::Alive)
                && selectors.iter().all(|selector| selector.takes(it))
                && after.as_ref().is_none_or(|after| *after < key(it))
        });
        let mut found = Vec::new();
        let mut last = None;
        // Whether one is frozen only it itself can tell, so a page may take several rounds.
        for round in rooms.chunks(limit.max(AT_ONCE)) {
            let views = stream::iter(round.to_vec())
                .map(|room| async move { (view::of(house, &room).await, room) })
                .buffered(AT_ONCE);
            let views: Vec<(SandboxInfo, Listed)> = views.collect().await;
            for (view, room) in &views {
                let view = view.clone();
                if self.state.is_some_and(|it| it != view.state) {
                    continue;
                }
                if found.len() == limit {
                    return Ok(SandboxPage { sandboxes: found, next_cursor: last });
                }
                last = Some(cursor(room.record.made, &room.record.id));
                found.push(view);
            }
        }
        Ok(SandboxPage { sandboxes: found, next_cursor: None })
    }
}

impl Selector {
    fn takes(&self, room: &Listed) -> bool {
        let labels = &room.record.labels;
        match self {
            Self::Has(key) => labels.contains_key(key),
            Self::Is(key, value) => labels.get(key) == Some(value),
            Self::IsNot(key, value) => labels.get(key) != Some(value),
        }
    }
}

fn selectors(text: &str) -> Result<Vec<Selector>, Problem> {
    let parts = text.split(',').filter(|it| !it.is_empty());
    parts.map(selector).collect()
}

fn selector(text: &str) -> Result<Selector, Problem> {
    let made = match text.split_once('=') {
        None => Selector::Has(text.to_owned()),
        Some((key, value)) => match key.strip_suffix('!') {
            Some(key) => Selector::IsNot(key.to_owned(), value.to_owned()),
            None => Selector::Is(key.to_owned(), value.to_owned()),
        },
    };
    let (Selector::Has(key) | Selector::Is(key, _) | Selector::IsNot(key, _)) = &made;
    // What Bulkhead itself writes there opens doors, and cannot be guessed by asking.
    if key.is_empty() || key.starts_with(view::OWN) {
        return Err(Problem::malformed(format!("`{text}` selects no label")));
    }
    Ok(made)
}

fn key(room: &Listed) -> (u64, String) {
    (room.record.made, room.record.id.clone())
}

/// How many are on a page of which so many are `asked`.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(PAGE);
    if !(1..=PAGE).contains(&limit) {
        return Err(Problem::malformed(format!("`limit` is from 1 to {PAGE}")));
    }
    Ok(limit)
}

/// What says that a page begins after what was made then under this name.
pub(super) fn cursor(made: u64, name: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{made} {name}"))
}

/// When, and under which name, that was made which a page begins after.
pub(super) fn position(cursor: &str) -> Result<(u64, String), Problem> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (made, id) = text.split_once(' ')?;
        Some((made.parse().ok()?, id.to_owned()))
    };
    read().ok_or_else(|| Problem::malformed("`cursor` is no cursor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_ours_cannot_be_asked_for() {
        let read = selectors("a,b=c=d,e!=f").unwrap();
        let owned = str::to_owned;
        let expected = [
            Selector::Has(owned("a")),
            Selector::Is(owned("b"), owned("c=d")),
            Selector::IsNot(owned("e"), owned("f")),
        ];
        assert_eq!(read, expected);
        assert!(selectors("bulkhead.e2b=x").is_err());
        assert!(selectors("=x").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_read_or_refused(text in ".{0,40}") {
            drop((selectors(&text), position(&text)));
        }
    }

    #[test]
    fn a_cursor_that_is_none_is_refused() {
        assert!(position("%%%").is_err());
        assert!(position("").is_err());
        assert_eq!(position(&URL_SAFE_NO_PAD.encode("7 abc")).unwrap(), (7, "abc".to_owned()));
    }
}
