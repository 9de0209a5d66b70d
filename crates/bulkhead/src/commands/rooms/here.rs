//! The rooms of this user on this host.
//!
//! A verb about one room looks at that room alone, however many there are; only where no room has
//! exactly the name that was said, or all are meant, is each of them looked at.

use bulkhead_engine::rooms::{Client, Journal, Keeping, Life, Listed};
use bulkhead_spec::escape;

use super::{journal_in, of_journal, reason};
use crate::{
    codes::Code,
    config::{Environment, Paths, Who},
    failure::Failure,
    printer::Printer,
};

/// The journal, and whom to tell what is found there.
pub(super) struct Here {
    pub(super) journal: Journal,
    printer: Printer,
}

impl Here {
    pub(super) fn open(environment: &Environment, printer: &Printer) -> Result<Self, Failure> {
        let journal = journal_in(&Paths::find(environment, Who::current()))?;
        Ok(Self { journal, printer: printer.clone() })
    }

    /// All rooms; those that have ended too.
    pub(super) fn list(&self) -> Result<Vec<Listed>, Failure> {
        self.look_around()?;
        self.journal.list().map_err(|error| of_journal(&error))
    }

    /// The room called `text`: its name or its id, or a beginning that only one has.
    pub(super) fn find(&self, text: &str) -> Result<Listed, Failure> {
        let Some(mut found) = self.journal.called(text) else {
            self.look_around()?;
            return self.journal.find(text).map_err(|error| of_journal(&error));
        };
        let buried = self.journal.bury_one(&found).map_err(|error| of_journal(&error))?;
        if let Some(end) = buried {
            self.tell_lost(&found.record.name);
            found.life = Life::Ended(end);
        }
        Ok(found)
    }

    /// The room called `text`, which must live.
    pub(super) fn living(&self, text: &str) -> Result<(Listed, Client), Failure> {
        let listed = self.find(text)?;
        let Life::Ended(end) = &listed.life else {
            let client = Client::new(self.journal.socket(&listed.record.id));
            return Ok((listed, client));
        };
        let name = escape(&listed.record.name);
        let failure = Failure::new(Code::Room, format!("the room `{name}` has ended"))
            .because(reason(&end.why));
        Err(match listed.record.keeping {
            Keeping::Memory => failure,
            Keeping::Disk => failure.hint(format!("its disk is there: bulkhead start {name}")),
        })
    }

    /// Moves aside what cannot be read and buries what was lost, and tells both.
    pub(super) fn look_around(&self) -> Result<(), Failure> {
        for trouble in self.journal.quarantine().map_err(|error| of_journal(&error))? {
            self.printer.warning(&trouble.to_string());
        }
        for lost in self.journal.bury().map_err(|error| of_journal(&error))? {
            self.tell_lost(&lost.name);
        }
        Ok(())
    }

    fn tell_lost(&self, name: &str) {
        self.printer.note(&format!("the room `{name}` was lost: its shim is gone"));
    }
}
