//! Directories that outlive the rooms that see them.
//!
//! What is in a volume was written by programs that nobody trusts, so nothing out here looks into
//! it: whoever wants its files without a room of their own is served from a small one that sees
//! nothing else, its *keeper*.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use bulkhead_engine::rooms::Client;
use bulkhead_spec::{Access, GuestPath, HostPath, Mount};
use serde::{Deserialize, Serialize};

use crate::{locked::locked, private, random};

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) name: String,
    /// What opens its files.
    pub(crate) token: String,
}

/// All of them, below a directory.
#[derive(Debug)]
pub(crate) struct Volumes {
    dir: PathBuf,
    /// Changes take turns.
    turn: Mutex<()>,
    /// Those whose keeper was started, by id. Whoever needs one waits for whoever starts it.
    keepers: tokio::sync::Mutex<BTreeMap<String, Client>>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("a volume called `{0}` exists already")]
    Taken(String),
    #[error("a volume's name has letters, digits, `-` and `_`, at most 64")]
    Name,
    #[error("the volumes cannot be read or changed")]
    System(#[from] io::Error),
}

impl Volumes {
    pub(crate) fn at(dir: &Path) -> Self {
        let keepers = tokio::sync::Mutex::new(BTreeMap::new());
        Self { dir: dir.to_owned(), turn: Mutex::new(()), keepers }
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> io::Result<Vec<Volume>> {
        private::read_json(&self.dir.join("volumes.json"))
    }

    /// The one with this id or name.
    pub(crate) fn find(&self, text: &str) -> io::Result<Option<Volume>> {
        let meant = |it: &Volume| it.id == text || it.name == text;
        Ok(self.list()?.into_iter().find(meant))
    }

    pub(crate) fn create(&self, name: &str) -> Result<Volume, VolumeError> {
        let _turn = locked(&self.turn);
        let fine = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
        if name.is_empty() || 64 < name.len() || !name.bytes().all(fine) {
            return Err(VolumeError::Name);
        }
        let mut all = self.list()?;
        if all.iter().any(|it| it.name == name) {
            return Err(VolumeError::Taken(name.to_owned()));
        }
        let id = format!("vol{}", random::word(20)?);
        let volume = Volume { id, name: name.to_owned(), token: random::token()? };
        fs::create_dir_all(self.data(&volume))?;
        all.push(volume.clone());
        private::write_json(&self.dir.join("volumes.json"), &all)?;
        Ok(volume)
    }

    /// Forgets one and what is in it; says whether there was one.
    pub(crate) async fn remove(&self, text: &str) -> io::Result<bool> {
        let Some(volume) = self.find(text)? else { return Ok(false) };
        if let Some(keeper) = self.keepers.lock().await.remove(&volume.id) {
            // One that has gone already need not be ended.
            keeper.end(std::time::Duration::ZERO).await.unwrap_or_default();
        }
        {
            let _turn = locked(&self.turn);
            let mut all = self.list()?;
            all.retain(|it| it.id != volume.id);
            private::write_json(&self.dir.join("volumes.json"), &all)?;
        }
        // Links in it are removed, not followed.
        let data = self.dir.join(&volume.id);
        tokio::task::spawn_blocking(move || fs::remove_dir_all(data))
            .await
            .map_err(io::Error::other)??;
        Ok(true)
    }

    fn data(&self, volume: &Volume) -> PathBuf {
        self.dir.join(&volume.id).join("data")
    }

    /// The volume as a share that a room sees at `to`.
    pub(crate) fn mount(&self, volume: &Volume, to: &str) -> io::Result<Mount> {
        let from = HostPath::try_from(self.data(volume)).map_err(io::Error::other)?;
        let to: GuestPath = to.parse().map_err(io::Error::other)?;
        Ok(Mount { from, to, access: Access::ReadWrite })
    }

    /// Somebody who sees the volume and nothing else; `start` makes one where none lives.
    pub(crate) async fn keeper<E>(
        &self,
        volume: &Volume,
        start: impl AsyncFnOnce() -> Result<Client, E>,
    ) -> Result<Client, E> {
        let mut keepers = self.keepers.lock().await;
        if let Some(keeper) = keepers.get(&volume.id)
            && keeper.inspect().await.is_ok()
        {
            return Ok(keeper.clone());
        }
        let keeper = start().await?;
        keepers.insert(volume.id.clone(), keeper.clone());
        Ok(keeper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_volume_is_made_found_and_removed_with_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = Volumes::at(dir.path());
        let made = volumes.create("data").unwrap();
        assert!(matches!(volumes.create("data"), Err(VolumeError::Taken(_))));
        for odd in ["", "a b", "../x", &"x".repeat(65)] {
            assert!(matches!(volumes.create(odd), Err(VolumeError::Name)), "{odd}");
        }
        assert_eq!(volumes.find("data").unwrap(), Some(made.clone()));
        assert_eq!(volumes.find(&made.id).unwrap(), Some(made.clone()));
        let outside = dir.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        std::os::unix::fs::symlink(&outside, volumes.data(&made).join("link")).unwrap();
        assert!(volumes.remove("data").await.unwrap());
        assert!(!volumes.remove("data").await.unwrap());
        assert!(outside.exists() && !volumes.data(&made).exists());
    }
}
