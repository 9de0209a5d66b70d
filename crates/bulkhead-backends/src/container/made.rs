//! A container that was asked for, and everything on this host that it needs.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use super::{Address, Record, client::Daemon, plate::Plate, podman, stage::Stage};
use crate::{BackendError, identity::Owner, workspace::stand_in::StandIns};

/// How long a daemon may take to remove a container that was let go of.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// The container, and what holds it. Dropping it removes all of it.
///
/// Its record goes last: as long as anything may be left, a sweep can find it.
pub(super) struct Made {
    daemon: Daemon,
    name: String,
    held: Option<Held>,
}

/// What a container needs on this host.
pub(super) struct Held {
    pub(super) laid: Laid,
    pub(super) stand_ins: StandIns,
    pub(super) owner: Option<Owner>,
    pub(super) record: Record,
}

/// What it is shown that was made for it alone.
pub(super) enum Laid {
    /// Mounts.
    Mounted(Stage),
    /// Files, if any.
    Plain { _plate: Option<Plate> },
}

impl Made {
    /// Takes charge of the container `name`, which may be made from now on.
    pub(super) fn new(daemon: Daemon, name: String, held: Held) -> Self {
        Self { daemon, name, held: Some(held) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// What is mounted for it on this host.
    pub(super) fn stage(&self) -> Option<&Stage> {
        match &self.held.as_ref()?.laid {
            Laid::Mounted(stage) => Some(stage),
            Laid::Plain { .. } => None,
        }
    }

    /// Takes back what the container needed only to be started, which it is.
    pub(super) fn started(&self) -> Result<(), BackendError> {
        self.stage().map_or(Ok(()), Stage::strike).map_err(|source| BackendError::System {
            action: "end the mounts that the container has copies of",
            source,
        })
    }

    /// Takes back what the container needed, which is removed by now.
    pub(super) fn release(mut self) -> Result<(), BackendError> {
        self.held.take().map_or(Ok(()), Held::release).map_err(|source| BackendError::System {
            action: "take the sandbox's record back",
            source,
        })
    }
}

impl Held {
    fn release(self) -> io::Result<()> {
        let Self { laid, stand_ins, owner, record } = self;
        drop((laid, stand_ins, owner));
        record.close()
    }
}

impl Drop for Made {
    /// Without a runtime, for there may be none any more.
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let removed = remove(&self.daemon.facts.address, &self.name);
        match removed.and_then(|()| held.release()) {
            Ok(()) => {}
            // The record stays, so the next start tries again.
            Err(error) => tracing::warn!(name = self.name, %error, "a container was left"),
        }
    }
}

/// Has the daemon at `address` remove the container `name`, and waits for it.
fn remove(address: &Address, name: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match try_remove(address, name)? {
            Answer::Removed => return Ok(()),
            Answer::Later if Instant::now() < deadline => thread::sleep(PAUSE),
            Answer::Later => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// What a daemon says to that.
enum Answer {
    Removed,
    /// It is ending just now, or somebody else is at it.
    Later,
}

fn try_remove(address: &Address, name: &str) -> io::Result<Answer> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            ask(stream, name)
        }
        Address::Tcp(host) => {
            let stream = TcpStream::connect(host)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            ask(stream, name)
        }
        Address::Foreign { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn ask(mut stream: impl Read + Write, name: &str) -> io::Result<Answer> {
    let request = format!(
        "DELETE /containers/{name}?force=true&v=true HTTP/1.1\r\nHost: daemon\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer)?;
    let line = answer.split(|it| *it == b'\n').next().unwrap_or_default();
    match line.split(|it| *it == b' ').nth(1) {
        Some(b"200" | b"204" | b"404") => return Ok(Answer::Removed),
        Some(b"409") => return Ok(Answer::Later),
        Some(_) if podman::is_passing(&String::from_utf8_lossy(&answer)) => {
            return Ok(Answer::Later);
        }
        Some(_) | None => {}
    }
    let said = bulkhead_spec::escape_bytes(line.trim_ascii());
    Err(io::Error::other(format!("the daemon answered `{said}`")))
}
