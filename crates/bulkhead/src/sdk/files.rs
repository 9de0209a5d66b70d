//! Files of a sandbox.

use std::path::Path;

use bulkhead_engine::rooms::{
    Client, ClientError, Links,
    tree::{Depth, Facts, Onto, Put},
};

use super::SandboxError;

/// The permissions of directories that are made.
const DIRECTORY: u32 = 0o755;
/// The most entries of a list.
const MOST: usize = 100_000;

/// The files of a sandbox, as it sees them: nothing on the host follows its links. What is relative
/// begins where its programs start.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    client: &'a Client,
    dir: &'a str,
}

impl<'a> Files<'a> {
    pub(super) fn new(client: &'a Client, dir: &'a str) -> Self {
        Self { client, dir }
    }

    fn whole(&self, path: &Path) -> Vec<u8> {
        Path::new(self.dir).join(path).as_os_str().as_encoded_bytes().to_vec()
    }

    /// The whole of a file.
    pub async fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, SandboxError> {
        let mut download = self.client.read(&self.whole(path.as_ref()), 0, None).await?;
        let mut all = Vec::new();
        while let Some(bytes) = download.next().await? {
            all.extend(bytes);
        }
        Ok(all)
    }

    /// The whole of a file, as text; what is none is replaced.
    pub async fn read_text(&self, path: impl AsRef<Path>) -> Result<String, SandboxError> {
        let bytes = self.read(path).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a file at once: until all is there, what was there stays. Directories that are
    /// missing are made.
    pub async fn write(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
    ) -> Result<(), SandboxError> {
        self.put(path.as_ref(), bytes, Put::Replace).await
    }

    /// Adds to the end of a file.
    pub async fn append(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
    ) -> Result<(), SandboxError> {
        self.put(path.as_ref(), bytes, Put::Append).await
    }

    async fn put(&self, path: &Path, bytes: &[u8], put: Put) -> Result<(), SandboxError> {
        let path = self.whole(path);
        let above = path.iter().rposition(|it| *it == b'/').and_then(|at| path.get(..at));
        if let Some(above @ [_, ..]) = above {
            self.client.make_dirs(above, DIRECTORY).await?;
        }
        let mut upload = self.client.write(&path, put, None).await?;
        // Why it was not taken is told when it is finished.
        upload.write(bytes).await.unwrap_or_default();
        Ok(upload.finish().await?)
    }

    /// What is there; a link itself, not what it leads to.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<Facts, SandboxError> {
        Ok(self.client.stat(&self.whole(path.as_ref()), Links::Keep).await?)
    }

    /// Whether anything is there.
    pub async fn exists(&self, path: impl AsRef<Path>) -> Result<bool, SandboxError> {
        Ok(self.client.exists(&self.whole(path.as_ref())).await?)
    }

    /// The names in a directory, sorted.
    pub async fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, SandboxError> {
        let (found, _) = self.client.list(&self.whole(path.as_ref()), 1, MOST).await?;
        let names = found.iter().map(|it| String::from_utf8_lossy(&it.path).into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Makes a directory, and those that it lies in.
    pub async fn make_dir(&self, path: impl AsRef<Path>) -> Result<(), SandboxError> {
        Ok(self.client.make_dirs(&self.whole(path.as_ref()), DIRECTORY).await?)
    }

    /// Gives something another name; what is there is replaced.
    pub async fn rename(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<(), SandboxError> {
        let (from, to) = (self.whole(from.as_ref()), self.whole(to.as_ref()));
        Ok(self.client.rename(&from, &to, Onto::Anything).await?)
    }

    /// Removes something, with all that is in it; says whether anything was there.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<bool, SandboxError> {
        match self.client.remove(&self.whole(path.as_ref()), Depth::Everything).await {
            Ok(()) => Ok(true),
            Err(ClientError::Failed(failed)) if failed.kind == "no_file" => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
