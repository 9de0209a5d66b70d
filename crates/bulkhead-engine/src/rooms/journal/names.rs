//! Which room has a name, without a look at all of them.
//!
//! A name is a second name of the record, as it was when the room was given it: a link that is a file
//! of its own takes a file system much longer to make. Where a file has one name only, it is a link to
//! the id.
//!
//! Invariant: a name leads to the id of the room that was given it last; whether that room still lives
//! and is called so is told by the room itself. A name is changed only in turn.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use serde::Deserialize;

use super::{Journal, Life, Listed, RECORD, Record, look};

impl Journal {
    /// The living room of exactly this name.
    pub(in super::super) fn named(&self, name: &str) -> Option<Listed> {
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
        let id = id_at(&self.names.join(name))?;
        self.with_id(&id).filter(|it| it.record.name == name)
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
        let name = self.names.join(&record.name);
        match self.name_record(record, &name) {
            // It was that of a room that has ended.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let fresh = self.names.join(format!("{}.new-{}", record.name, record.id));
                self.name_record(record, &fresh)?;
                fs::rename(&fresh, name)?;
                // It stays where the name was the room's already.
                super::remove_if_there(&fresh)
            }
            given => given,
        }
    }

    /// Makes `name` lead to the room of `record`, which is written down.
    fn name_record(&self, record: &Record, name: &Path) -> io::Result<()> {
        match fs::hard_link(self.state.join(&record.id).join(RECORD), name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                symlink(&record.id, name)
            }
            named => named,
        }
    }

    /// Takes the name back from a room that is forgotten, unless another has it since.
    pub(super) fn take_name(&self, record: &Record) -> io::Result<()> {
        let name = self.names.join(&record.name);
        if id_at(&name).is_some_and(|it| it == record.id) {
            super::remove_if_there(&name)?;
        }
        Ok(())
    }
}

/// The id that the name at `path` leads to.
fn id_at(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    match fs::read_link(path) {
        Ok(id) => id.to_str().map(str::to_owned),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => serde_json::from_slice(&fs::read(path).ok()?).ok().map(|it: Named| it.id),
    }
}

/// Whether a text is one name in a directory, and nothing that leads elsewhere.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && !text.contains(['/', '\0'])
        && text.len() <= 64
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use bulkhead_policy::Policy;
    use bulkhead_spec::Spec;

    use super::{Journal, Record};

    fn room(id: &str) -> Record {
        let (id, name) = (id.to_owned(), "name".to_owned());
        Record::new(id, name, Spec::default(), Policy::default())
    }

    #[test]
    fn a_name_leads_to_the_room_that_was_given_it_last() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("state"), &dir.path().join("run"));
        let id = || journal.called("name").map(|it| it.record.id);
        let names = || fs::read_dir(&journal.names).unwrap().count();

        let first = journal.begin(&room("first")).unwrap();
        assert_eq!(id().as_deref(), Some("first"));
        // A record that was rewritten is another file, of the same room.
        first.rewrite(&room("first")).unwrap();
        journal.give_name(&room("first")).unwrap();
        assert_eq!((id().as_deref(), names()), (Some("first"), 1));
        first.end(super::super::Why::Stopped).unwrap();

        let second = journal.begin(&room("second")).unwrap();
        journal.forget("first").unwrap();
        assert_eq!((id().as_deref(), names()), (Some("second"), 1));

        // As it is where a file has one name only.
        fs::remove_file(journal.names.join("name")).unwrap();
        symlink("second", journal.names.join("name")).unwrap();
        assert_eq!(id().as_deref(), Some("second"));
        second.end(super::super::Why::Stopped).unwrap();
        journal.forget("second").unwrap();
        assert_eq!((id(), names()), (None, 0));
    }
}
