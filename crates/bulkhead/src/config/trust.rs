//! Which files of projects the user has looked at and trusts.
//!
//! Trust is in the exact content at an exact place: one changed byte and it is gone.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ConfigError, Source, shown};

/// What a file held, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Digest(String);

impl Digest {
    /// SHA-256 over the path, a NUL and the content.
    pub(crate) fn of(source: &Source) -> Self {
        let mut hash = Sha256::new();
        hash.update(source.path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(source.text.as_bytes());
        let mut hex = String::new();
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            write!(hex, "{byte:02x}").unwrap_or_default();
        }
        Self(hex)
    }
}

/// The files that are trusted.
#[derive(Clone, Debug)]
pub(crate) struct TrustStore {
    path: PathBuf,
    trusted: Vec<Trusted>,
}

/// One file that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// Where it is, escaped: for people.
    pub(crate) path: String,
    /// What it held.
    pub(crate) sha256: Digest,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema_version: u32,
    trusted: Vec<Trusted>,
}

impl TrustStore {
    /// The store at `path`; an absent one is empty.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let trusted = match fs::read(path) {
            Ok(bytes) => {
                let stored: Result<Stored, _> = serde_json::from_slice(&bytes);
                stored.map_err(|error| failed(path, error.into()))?.trusted
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(path, error)),
        };
        Ok(Self { path: path.to_owned(), trusted })
    }

    /// Whether exactly this was trusted.
    pub(crate) fn trusts(&self, digest: &Digest) -> bool {
        self.trusted.iter().any(|it| it.sha256 == *digest)
    }

    /// All that is trusted.
    pub(crate) fn all(&self) -> &[Trusted] {
        &self.trusted
    }

    /// Trusts `source` as it is, and no earlier content of it any more.
    pub(crate) fn trust(&mut self, source: &Source) -> Result<(), ConfigError> {
        let path = shown(&source.path);
        self.trusted.retain(|it| it.path != path);
        self.trusted.push(Trusted { path, sha256: Digest::of(source) });
        self.save()
    }

    /// Trusts nothing at `path` any more; tells whether something was.
    pub(crate) fn revoke(&mut self, path: &Path) -> Result<Revoked, ConfigError> {
        let path = shown(path);
        let before = self.trusted.len();
        self.trusted.retain(|it| it.path != path);
        if self.trusted.len() == before {
            return Ok(Revoked::Nothing);
        }
        self.save()?;
        Ok(Revoked::Trust)
    }

    /// Replaces the file in one step, so that a crash leaves the old or the new one.
    fn save(&self) -> Result<(), ConfigError> {
        let stored = Stored { schema_version: 1, trusted: self.trusted.clone() };
        let write = || -> io::Result<()> {
            let dir = self.path.parent().unwrap_or(Path::new("/"));
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let fresh = self.path.with_extension(format!("{}.new", std::process::id()));
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            let written = serde_json::to_writer_pretty(&mut file, &stored)
                .map_err(io::Error::from)
                .and_then(|()| file.write_all(b"\n"))
                .and_then(|()| file.sync_all())
                .and_then(|()| fs::rename(&fresh, &self.path));
            if written.is_err() {
                fs::remove_file(&fresh)?;
            }
            written
        };
        write().map_err(|source| failed(&self.path, source))
    }
}

/// What a revocation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// The file was trusted.
    Trust,
    /// It was not.
    Nothing,
}

fn failed(path: &Path, source: io::Error) -> ConfigError {
    ConfigError::Store { path: shown(path), source }
}
