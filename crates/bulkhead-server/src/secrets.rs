//! Values that rooms may use without seeing them.
//!
//! Invariant: a value leaves this store only into a file that the gateway of a room reads. No call
//! returns one.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use bulkhead_spec::Secret;
use serde::{Deserialize, Serialize};

use crate::{clock, locked::locked, private, random};

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) id: String,
    pub(crate) name: String,
    /// How often it was given a value.
    pub(crate) version: u64,
    pub(crate) metadata: BTreeMap<String, String>,
    /// Microseconds since 1970.
    pub(crate) created: u64,
    pub(crate) updated: u64,
}

/// A secret as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    label: Label,
    value: String,
}

/// All of them, in a file.
#[derive(Debug)]
pub(crate) struct Secrets {
    file: PathBuf,
    /// Changes take turns.
    turn: Mutex<()>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("a secret called `{0}` exists already")]
    Taken(String),
    #[error(
        "a secret needs a name without braces and control characters, of at most 128 bytes"
    )]
    Name,
    #[error("a secret's value is text of one line, of 1 to 65536 bytes")]
    Value,
    #[error("at most 32 entries of metadata, of 8192 bytes together")]
    Metadata,
    #[error("the secrets cannot be read or changed")]
    System(#[from] io::Error),
}

impl Secrets {
    pub(crate) fn at(file: &Path) -> Self {
        Self { file: file.to_owned(), turn: Mutex::new(()) }
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> Result<Vec<Label>, SecretError> {
        Ok(self.read()?.into_iter().map(|it| it.label).collect())
    }

    /// The one with this id or name.
    pub(crate) fn find(&self, text: &str) -> Result<Option<Label>, SecretError> {
        Ok(self.list()?.into_iter().find(|it| it.is(text)))
    }

    /// The value of the one called `name`.
    pub(crate) fn value(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        let found = self.read()?.into_iter().find(|it| it.label.name == name);
        Ok(found.map(|it| Secret::new(it.value)))
    }

    /// Keeps a new one.
    pub(crate) fn create(
        &self,
        name: &str,
        value: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<Label, SecretError> {
        let _turn = locked(&self.turn);
        check(name, value, &metadata)?;
        let mut all = self.read()?;
        if all.iter().any(|it| it.label.name == name) {
            return Err(SecretError::Taken(name.to_owned()));
        }
        let id = format!("sec_{}", random::word(20)?);
        let (name, now) = (name.to_owned(), clock::micros());
        let label = Label { id, name, version: 1, metadata, created: now, updated: now };
        all.push(Kept { label: label.clone(), value: value.to_owned() });
        self.write(&all)?;
        Ok(label)
    }

    /// Gives one another value; `None` if there is none.
    pub(crate) fn update(
        &self,
        text: &str,
        value: &str,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<Option<Label>, SecretError> {
        let _turn = locked(&self.turn);
        let mut all = self.read()?;
        let Some(kept) = all.iter_mut().find(|it| it.label.is(text)) else { return Ok(None) };
        check(&kept.label.name, value, metadata.as_ref().unwrap_or(&kept.label.metadata))?;
        value.clone_into(&mut kept.value);
        kept.label.version += 1;
        kept.label.updated = clock::micros();
        if let Some(metadata) = metadata {
            kept.label.metadata = metadata;
        }
        let label = kept.label.clone();
        self.write(&all)?;
        Ok(Some(label))
    }

    /// Forgets one; says whether there was one.
    pub(crate) fn remove(&self, text: &str) -> Result<bool, SecretError> {
        let _turn = locked(&self.turn);
        let mut all = self.read()?;
        let before = all.len();
        all.retain(|it| !it.label.is(text));
        if all.len() == before {
            return Ok(false);
        }
        self.write(&all)?;
        Ok(true)
    }

    fn read(&self) -> io::Result<Vec<Kept>> {
        private::read_json(&self.file)
    }

    fn write(&self, all: &[Kept]) -> io::Result<()> {
        private::write_json(&self.file, &all)
    }
}

impl Label {
    fn is(&self, text: &str) -> bool {
        self.id == text || self.name == text
    }
}

fn check(
    name: &str,
    value: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<(), SecretError> {
    let odd = |it: char| it.is_control() || matches!(it, '{' | '}');
    if name.is_empty() || 128 < name.len() || name.contains(odd) {
        return Err(SecretError::Name);
    }
    if value.is_empty() || 65_536 < value.len() || value.contains(|it: char| it.is_control()) {
        return Err(SecretError::Value);
    }
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if 32 < metadata.len() || 8192 < bytes {
        return Err(SecretError::Metadata);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_kept_changed_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secrets.json");
        let secrets = Secrets::at(&file);
        let made = secrets.create("api", "one", BTreeMap::new()).unwrap();
        assert!(matches!(
            secrets.create("api", "x", BTreeMap::new()),
            Err(SecretError::Taken(_))
        ));
        assert_eq!(secrets.find("api").unwrap(), Some(made.clone()));
        assert_eq!(secrets.find(&made.id).unwrap(), Some(made));
        let changed = secrets.update("api", "two", None).unwrap().unwrap();
        assert_eq!(changed.version, 2);
        assert_eq!(secrets.value("api").unwrap().unwrap().expose(), "two");
        let permissions = std::fs::metadata(&file).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, 0o600);
        assert!(secrets.remove("api").unwrap());
        assert!(!secrets.remove("api").unwrap());
        assert!(secrets.value("api").unwrap().is_none());
        assert!(secrets.update("api", "x", None).unwrap().is_none());
    }

    #[test]
    fn what_could_not_stand_in_a_header_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(&dir.path().join("secrets.json"));
        let none = BTreeMap::new();
        for name in ["", "a}", "a\n", &"x".repeat(129)] {
            assert!(matches!(secrets.create(name, "v", none.clone()), Err(SecretError::Name)));
        }
        for value in ["", "a\r\nb: c", &"x".repeat(65_537)] {
            assert!(matches!(
                secrets.create("n", value, none.clone()),
                Err(SecretError::Value)
            ));
        }
        assert!(secrets.list().unwrap().is_empty());
    }
}
