//! What a builder says while it builds.

use std::collections::VecDeque;

use bollard::errors::Error as DaemonError;
use bulkhead_spec::escape;

use super::BuildError;

/// How many lines of output are told when a step fails.
const TAIL: usize = 20;

/// What there is to tell. Text is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A base is fetched.
    Pulling(String),
    /// The files were sent.
    Sent {
        /// How many.
        files: usize,
        /// How much.
        bytes: usize,
    },
    /// A step begins.
    Step {
        /// Which, from 1.
        at: u32,
        /// Of how many.
        of: u32,
        /// The instruction.
        what: String,
    },
    /// A step says something.
    Output(String),
    /// The image is being made reproducible.
    Normalising,
}

/// What was heard so far.
#[derive(Default)]
pub(super) struct Heard {
    rest: String,
    tail: VecDeque<String>,
}

impl Heard {
    /// Takes a part of what the builder says, and tells whole lines.
    pub(super) fn take(&mut self, part: &str, say: &mut dyn FnMut(Progress)) {
        self.rest.push_str(part);
        while let Some(at) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=at).collect();
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            if let Some(step) = step(line) {
                say(step);
                continue;
            }
            // Names of steps that the builder keeps for itself.
            if line.starts_with(" ---> ") || line.starts_with("Removing intermediate") {
                continue;
            }
            let line = escape(line);
            if self.tail.len() == TAIL {
                self.tail.pop_front();
            }
            self.tail.push_back(line.clone());
            say(Progress::Output(line));
        }
    }

    /// Why the build failed, in the builder's words.
    pub(super) fn ended(self, said: &str) -> BuildError {
        BuildError::Step { said: escape(said), output: self.tail.into() }
    }

    /// Why the build failed.
    pub(super) fn failed(self, error: &DaemonError) -> BuildError {
        let said = if let DaemonError::DockerStreamError { error } = error {
            escape(error)
        } else if let DaemonError::DockerResponseServerError { message, .. } = error {
            escape(message)
        } else {
            escape(&error.to_string())
        };
        BuildError::Step { said, output: self.tail.into() }
    }
}

/// `Step 3/12 : RUN make`.
fn step(line: &str) -> Option<Progress> {
    let (numbers, what) = line.strip_prefix("Step ")?.split_once(" : ")?;
    let (at, of) = numbers.split_once('/')?;
    Some(Progress::Step { at: at.parse().ok()?, of: of.parse().ok()?, what: escape(what) })
}
