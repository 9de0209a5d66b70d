//! `--report FILE`: how it ended, for programs.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use bulkhead_spec::{Ending, Outcome};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use crate::{codes::Code, config::shown, console::Lost, failure::Failure};

/// A file that is open before anything runs: whatever runs cannot move it, and one that cannot be
/// written to is known in time.
pub(crate) struct Report {
    path: PathBuf,
    file: File,
}

/// Which of the streams was not taken to the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// The output.
    pub(crate) stdout: Lost,
    /// The complaints.
    pub(crate) stderr: Lost,
}

impl Report {
    /// Opens and empties the file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        // A link in the workspace may have been laid by an earlier run; those in `/dev` were not.
        let links = if path.starts_with("/dev") { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::TRUNC
            | OFlags::CLOEXEC
            | OFlags::NOCTTY
            | links;
        match rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Self { path: path.to_owned(), file: file.into() }),
            Err(rustix::io::Errno::LOOP) => {
                Err(failed(path, io::Error::other("it is a symbolic link")))
            }
            Err(errno) => Err(failed(path, errno.into())),
        }
    }

    /// Writes how the program ended.
    pub(crate) fn outcome(self, outcome: &Outcome, streams: &Streams) -> Result<(), Failure> {
        let flooded = matches!(outcome.ending, Ending::OutputLimit { .. });
        let mut value = serde_json::to_value(outcome)
            .map_err(|error| failed(&self.path, io::Error::other(error)))?;
        // What was passed on was not lost, though the outcome kept none of it.
        for (name, lost) in [("stdout", &streams.stdout), ("stderr", &streams.stderr)] {
            if let Some(stream) = value.get_mut(name).and_then(Value::as_object_mut) {
                stream.insert("truncated".to_owned(), json!(flooded || lost.any()));
            }
        }
        if let Some(value) = value.as_object_mut() {
            value.insert("exit_code".to_owned(), json!(outcome.ending.exit_code()));
        }
        self.write(value)
    }

    /// Writes why nothing ran.
    pub(crate) fn failure(self, failure: &Failure, exit: u8) -> Result<(), Failure> {
        let mut value = failure.json(exit);
        if let Some(value) = value.as_object_mut() {
            value.insert("exit_code".to_owned(), json!(exit));
        }
        self.write(value)
    }

    fn write(mut self, mut value: Value) -> Result<(), Failure> {
        if let Some(value) = value.as_object_mut() {
            value.insert("schema_version".to_owned(), json!(1));
        }
        let written = self.file.write_all(format!("{value:#}\n").as_bytes());
        written.map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, source: io::Error) -> Failure {
    let what = format!("could not write the report to `{}`", shown(path));
    Failure::new(Code::Record, what).because(source)
}
