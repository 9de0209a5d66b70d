//! The caller's environment, read once and passed on as a value.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The variables that Bulkhead was started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub(crate) fn read() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of `name`, where it is set and not empty.
    pub(crate) fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str).filter(|it| !it.is_empty())
    }

    /// The value of `name`, empty or not.
    pub(crate) fn exact(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// The value of `name` where it is an absolute path; the XDG rules ignore any other.
    pub(crate) fn dir(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|it| it.is_absolute())
    }

    /// The caller's home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.dir("HOME").filter(|it| it != Path::new("/"))
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.keys().map(OsString::as_os_str)
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
