//! The sandbox that a call is about.

use bulkhead_engine::rooms::{Client, Life, Listed};

use super::problem::{Kind, Problem};
use crate::house::House;

/// The sandbox called `text`: by its id or its whole name. Nothing that a client says becomes part
/// of a path before it was looked at (THREATS E8).
pub(crate) fn find(house: &House, text: &str) -> Result<Listed, Problem> {
    let unknown = || {
        Problem::new(Kind::SandboxNotFound, format!("there is no sandbox `{text}`"))
            .hint("GET /v1/sandboxes lists them")
    };
    if !is_name(text) {
        return Err(unknown());
    }
    if let Some(listed) = house.journal.room(text)? {
        return Ok(listed);
    }
    let mut named: Vec<Listed> = house.journal.list()?;
    named.retain(|it| it.record.name == text);
    // One that lives comes before those that have ended, of which the last is meant.
    let alive = named.iter().position(|it| it.life == Life::Alive);
    match alive {
        Some(at) => Ok(named.swap_remove(at)),
        None => named.pop().ok_or_else(unknown),
    }
}

/// The same, which must live.
pub(crate) fn living(house: &House, text: &str) -> Result<(Listed, Client), Problem> {
    let listed = find(house, text)?;
    if listed.life != Life::Alive {
        return Err(Problem::new(
            Kind::SandboxEnded,
            format!("the sandbox `{}` has ended", listed.record.name),
        ));
    }
    let client = Client::new(house.journal.socket(&listed.record.id));
    Ok((listed, client))
}

/// Whether `text` can be an id or a name.
pub(crate) fn is_name(text: &str) -> bool {
    let fine = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    let first = text.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric());
    first && text.len() <= 64 && text.bytes().all(fine)
}
