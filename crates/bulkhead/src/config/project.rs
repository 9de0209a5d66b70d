//! The file that comes with a project.

use std::path::Path;

use bulkhead_spec::Limits;

use super::{
    ConfigError, Digest, Layer, Links, Paths, Source, TrustStore, shown, widening::widening,
};

/// Its place, below the directory of the project.
pub(crate) const FILE: &str = ".bulkhead/config.toml";

/// The file of a project, judged.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The file.
    pub(crate) source: Source,
    /// What it would widen, each in a few words.
    pub(crate) widens: Vec<String>,
}

impl Project {
    /// What `layer`, read from `source`, would widen of what lies `below`.
    pub(crate) fn judge(
        source: Source,
        layer: &Layer,
        below: &Layer,
        defaults: &Limits,
    ) -> Self {
        Self { source, widens: widening(layer, below, defaults) }
    }

    /// Refuses the file if it widens and nobody has trusted exactly this content.
    pub(crate) fn check(&self, paths: &Paths) -> Result<(), ConfigError> {
        if self.widens.is_empty() || self.is_trusted(paths)? {
            return Ok(());
        }
        let path = shown(&self.source.path);
        Err(ConfigError::Untrusted { path, widens: self.widens.clone() })
    }

    /// Whether exactly this content, at this place, was trusted.
    pub(crate) fn is_trusted(&self, paths: &Paths) -> Result<bool, ConfigError> {
        let Some(store) = paths.trust() else { return Ok(false) };
        Ok(TrustStore::read(&store)?.trusts(&Digest::of(&self.source)))
    }
}

/// The file of the project that `dir` is part of: there, or above it up to the root of the
/// repository. The home directory is nobody's project.
pub(crate) fn find(dir: &Path, home: Option<&Path>) -> Result<Option<Source>, ConfigError> {
    for dir in dir.ancestors() {
        if Some(dir) == home {
            return Ok(None);
        }
        if let Some(source) = Source::read(&dir.join(FILE), Links::Refused)? {
            return Ok(Some(source));
        }
        if dir.join(".git").symlink_metadata().is_ok() {
            return Ok(None);
        }
    }
    Ok(None)
}
