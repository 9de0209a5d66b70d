//! Which room has a name, without a look at all of them.
//!
//! Invariant: a name is a link to the room that was given it last; whether that room still lives and
//! is called so is told by the room itself. A link is changed only in turn.

use std::{fs, io, os::unix::fs::symlink};

use super::{Journal, Life, Listed, Record, look};

impl Journal {
    /// The living room of exactly this name.
    pub(super) fn named(&self, name: &str) -> Option<Listed> {
        if !is_plain(name) {
            return None;
        }
        let id = fs::read_link(self.names.join(name)).ok()?;
        let listed = self.with_id(id.to_str()?)?;
        (listed.record.name == name).then_some(listed)
    }

    /// The living room of exactly this id.
    pub(super) fn with_id(&self, id: &str) -> Option<Listed> {
        if !is_plain(id) {
            return None;
        }
        let listed = look(&self.state.join(id)).ok().flatten()?;
        (listed.life == Life::Alive && listed.record.id == id).then_some(listed)
    }

    /// Lets the room be found by its name.
    pub(super) fn give_name(&self, record: &Record) -> io::Result<()> {
        super::private_dir(&self.names)?;
        let fresh = self.names.join(format!("{}.new-{}", record.name, record.id));
        symlink(&record.id, &fresh)?;
        fs::rename(&fresh, self.names.join(&record.name))
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
