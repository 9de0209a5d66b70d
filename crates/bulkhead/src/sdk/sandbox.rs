//! A sandbox, wherever it lives.

use std::{ffi::OsString, time::Duration};

use bulkhead_engine::rooms::{Client, Stats};

use super::{Files, Host, Run, SandboxBuilder, SandboxError};

/// A sandbox that lives. It ends with this value, unless it is told to stay.
///
/// ```
/// # fn main() -> Result<(), bulkhead::SandboxError> {
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use bulkhead::Sandbox;
///
/// let sandbox = Sandbox::builder().env("GREETING", "hello").create().await?;
/// sandbox.files().write("note.txt", b"kept").await?;
/// let ran = sandbox
///     .exec(["sh", "-c", "cat note.txt; printf \" $GREETING\""])
///     .timeout(Duration::from_secs(10))
///     .await?;
/// assert_eq!(ran.stdout(), "kept hello");
/// sandbox.close().await?;
/// # Ok(())
/// # }) }
/// ```
#[derive(Debug)]
pub struct Sandbox {
    host: Host,
    id: String,
    client: Client,
    dir: String,
    end: End,
}

/// What becomes of a sandbox that nobody holds any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    With,
    Without,
}

impl Sandbox {
    /// A sandbox to be made.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    pub(super) async fn new(
        host: Host,
        id: String,
        client: Client,
    ) -> Result<Self, SandboxError> {
        let room = client.inspect().await?;
        let dir = room.dir.map_or_else(|| "/".into(), |it| it.0);
        let dir = dir.to_string_lossy().into_owned();
        Ok(Self { host, id, client, dir, end: End::With })
    }

    /// Unique on its host, for ever.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where its programs start if nobody says.
    pub fn directory(&self) -> &str {
        &self.dir
    }

    /// It stays when this value goes; [`Host::get`] finds it again. One of this process's own
    /// engine still ends with the process.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.end = End::Without;
        self
    }

    /// A program and its arguments. Awaited, it runs to its end.
    pub fn exec<W: Into<OsString>>(&self, argv: impl IntoIterator<Item = W>) -> Run<'_> {
        Run::new(&self.client, argv.into_iter().map(Into::into).collect())
    }

    /// A line for `/bin/sh`: the tool that agents have. Awaited, it runs to its end.
    pub fn shell(&self, line: &str) -> Run<'_> {
        self.exec(["/bin/sh", "-c", line])
    }

    /// Its files.
    pub fn files(&self) -> Files<'_> {
        Files::new(&self.client, &self.dir)
    }

    /// Connects to a TCP port inside.
    pub async fn connect(&self, port: u16) -> Result<tokio::io::DuplexStream, SandboxError> {
        Ok(self.client.forward(port).await?)
    }

    /// What it has used.
    pub async fn stats(&self) -> Result<Stats, SandboxError> {
        Ok(self.client.stats().await?)
    }

    /// Freezes its programs.
    pub async fn pause(&self) -> Result<(), SandboxError> {
        Ok(self.client.pause().await?)
    }

    /// Lets them go on.
    pub async fn resume(&self) -> Result<(), SandboxError> {
        Ok(self.client.resume().await?)
    }

    /// Ends it; returns when nothing of it is left.
    pub async fn close(mut self) -> Result<(), SandboxError> {
        self.end = End::Without;
        self.host.remove(&self.id, &self.client).await
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.end == End::Without {
            return;
        }
        // Outside of a runtime nobody can be told; then the sandbox ends with the process, or by
        // the time that it was given.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (host, id, client) = (self.host.clone(), self.id.clone(), self.client.clone());
            runtime.spawn(async move {
                let most = Duration::from_secs(10);
                let removed = tokio::time::timeout(most, host.remove(&id, &client)).await;
                drop(removed);
            });
        }
    }
}
