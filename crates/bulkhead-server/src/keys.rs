//! Who may come in.
//!
//! Invariant: the file of keys holds no key, only what tells a right one from a wrong one.

use std::{
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{private, random};

/// What a key is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Looking.
    Read,
    /// Making rooms and running programs, and looking.
    Run,
    /// Everything.
    Admin,
}

impl Scope {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

/// A key, without what opens the door.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Key {
    /// How people tell it from others.
    pub name: String,
    /// What it is good for.
    pub scope: Scope,
    /// Seconds since 1970 after which it is good for nothing.
    pub expires: Option<u64>,
    hash: String,
}

/// The keys to this house, in a file.
#[derive(Clone, Debug)]
pub struct Keys {
    file: PathBuf,
}

/// The keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system said no.
    #[error("could not use the file of keys `{}`", .0.display())]
    System(PathBuf, #[source] io::Error),
    /// There is a key of this name already.
    #[error("there is a key `{}` already", bulkhead_spec::escape(.0))]
    Taken(String),
}

impl Keys {
    /// The keys in `file`.
    pub fn at(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// Makes a key and returns it; it cannot be had again.
    pub fn make(
        &self,
        name: &str,
        scope: Scope,
        expires: Option<u64>,
    ) -> Result<String, KeyError> {
        let mut keys = self.list()?;
        if keys.iter().any(|it| it.name == name) {
            return Err(KeyError::Taken(name.to_owned()));
        }
        // The form that every generation of clients accepts.
        let token = random::token().map_err(|error| self.failed(error))?;
        let secret = format!("e2b_{token}");
        keys.push(Key { name: name.to_owned(), scope, expires, hash: hash(&secret) });
        self.write(&keys)?;
        Ok(secret)
    }

    /// All keys.
    pub fn list(&self) -> Result<Vec<Key>, KeyError> {
        private::read_json(&self.file).map_err(|error| self.failed(error))
    }

    /// Removes the key called `name`; says whether there was one.
    pub fn remove(&self, name: &str) -> Result<bool, KeyError> {
        let mut keys = self.list()?;
        let before = keys.len();
        keys.retain(|it| it.name != name);
        if keys.len() == before {
            return Ok(false);
        }
        self.write(&keys)?;
        Ok(true)
    }

    /// What `secret` opens, if anything.
    pub fn scope_of(&self, secret: &str) -> Result<Option<Scope>, KeyError> {
        Ok(self.find(secret)?.map(|it| it.scope))
    }

    /// The key that `secret` is, if it is one that opens anything.
    pub fn find(&self, secret: &str) -> Result<Option<Key>, KeyError> {
        let given = hash(secret);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut found = None;
        // All are looked at, so that the time tells nothing about which one was nearly right.
        for key in self.list()? {
            let lives = key.expires.is_none_or(|it| now < it);
            if same(&key.hash, &given) && lives {
                found = Some(key);
            }
        }
        Ok(found)
    }

    fn write(&self, keys: &[Key]) -> Result<(), KeyError> {
        private::write_json(&self.file, &keys).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> KeyError {
        KeyError::System(self.file.clone(), source)
    }
}

pub(crate) fn hash(secret: &str) -> String {
    let digest = Sha256::digest(secret.as_bytes());
    digest.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat()
}

/// Whether both are the same, in a time that does not depend on where they differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let differ = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_until_it_is_removed_or_expires_and_is_not_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.json");
        let keys = Keys::at(&file);
        let secret = keys.make("mine", Scope::Run, None).unwrap();
        let late = keys.make("late", Scope::Admin, Some(1)).unwrap();
        assert!(secret.strip_prefix("e2b_").unwrap().len() == 40);
        assert_eq!(keys.scope_of(&secret).unwrap(), Some(Scope::Run));
        assert_eq!(keys.scope_of(&late).unwrap(), None);
        assert_eq!(keys.scope_of("e2b_0").unwrap(), None);
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&secret[4..]));
        assert!(keys.make("mine", Scope::Read, None).is_err());
        assert!(keys.remove("mine").unwrap());
        assert_eq!(keys.scope_of(&secret).unwrap(), None);
    }
}
