//! Which room has a name, without a look at all of them.
//!
//! Invariant: a name is a link to the room that was given it last; whether that room still lives and
//! is called so is told by the room itself. A link is changed only in turn.

use std::{fs, io, os::unix::fs::symlink};

use super::{Journal, Life, Listed, Record, look};

impl Journal {
    /// The living room of exactly this name.
    pub(super) fn named(&self, name: &str) -> Option<Listed> {
        self.last_named(name).filter(|it| it.life == Life::Alive)
    }

    /// The room of exactly this name or id, and no other is looked at. A living room comes before one
    /// that has ended; of those that have ended under one name, the one that had it last.
    pub fn called(&self, text: &str) -> Option<Listed> {
        let (named, with_id) = (self.last_named(text), self.with_id(text));
        let alive = |it: &Option<Listed>| it.as_ref().is_some_and(|it| it.life == Life::Alive);
        if !alive(&named) && alive(&with_id) { with_id } else { named.or(with_id) }
    }

    /// The room that was given this name last.
    fn last_named(&self, name: &str) -> Option<Listed> {
        if !is_plain(name) {
            return None;
        }
        let id = fs::read_link(self.names.join(name)).ok()?;
        self.with_id(id.to_str()?).filter(|it| it.record.name == name)
    }

    /// The room of exactly this id.
    fn with_id(&self, id: &str) -> Option<Listed> {
        if !is_plain(id) {
            return None;
        }
        look(&self.state.join(id)).ok().flatten().filter(|it| it.record.id == id)
    }

    /// Lets the room be found by its name.
    pub(super) fn give_name(&self, record: &Record) -> io::Result<()> {
        let link = self.names.join(&record.name);
        match symlink(&record.id, &link) {
            // It was that of a room that has ended.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let fresh = self.names.join(format!("{}.new-{}", record.name, record.id));
                symlink(&record.id, &fresh)?;
                fs::rename(&fresh, link)
            }
            given => given,
        }
    }

    /// Takes the name back from a room that is forgotten, unless another has it since.
    pub(super) fn take_name(&self, record: &Record) -> io::Result<()> {
        let link = self.names.join(&record.name);
        if fs::read_link(&link).is_ok_and(|it| it.as_os_str() == record.id.as_str()) {
            super::remove_if_there(&link)?;
        }
        Ok(())
    }
}

/// Whether a text is one name in a directory, and nothing that leads elsewhere.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && !text.contains(['/', '\0'])
        && text.len() <= 64
}
