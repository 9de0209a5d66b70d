//! The record of what happened.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use bulkhead_spec::{Event, escape_bytes};
use serde::Serialize;

use crate::RunError;

/// Where events are written down.
///
/// A run that cannot be recorded is not started: [`Ledger::record`] failing before the sandbox
/// exists refuses the run.
pub trait Ledger: Send + Sync {
    /// Writes `event` of `sandbox` down.
    fn record(&self, sandbox: &str, event: &Event) -> Result<(), RunError>;
}

/// A file with one JSON object a line, appended to in single writes.
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Microseconds since 1970: for display only, order is that of the lines.
    time: u64,
    sandbox: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

impl JsonLines {
    /// Opens the file at `path`, and makes it and its directory if they are absent.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let open = || {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            OpenOptions::new().append(true).create(true).mode(0o600).open(path)
        };
        let file = open().map_err(|source| failed(path, source))?;
        Ok(Self { path: path.to_owned(), file })
    }
}

impl JsonLines {
    /// Writes to `file`, wherever it is positioned; `name` is for messages.
    pub fn over(file: File, name: &Path) -> Self {
        Self { path: name.to_owned(), file }
    }
}

impl Ledger for JsonLines {
    fn record(&self, sandbox: &str, event: &Event) -> Result<(), RunError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(&Line { time, sandbox, event })?;
            line.push(b'\n');
            // One write, so that lines of two runs do not mix.
            (&self.file).write_all(&line)
        };
        write().map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> RunError {
    RunError::Ledger { path: escape_bytes(path.as_os_str().as_encoded_bytes()), source }
}
