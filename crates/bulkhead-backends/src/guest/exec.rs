//! Programs as plans say, and their failures as callers know them.

use std::{ffi::OsString, io};

use bulkhead_guest::protocol::After;
use bulkhead_linux::launch::Stage;
use bulkhead_policy::ExecPlan;
use bulkhead_spec::escape_bytes;

use super::{
    link::Link,
    program::{NotStarted, Order, Program, Starting},
};
use crate::BackendError;

impl Link {
    /// Starts the program of `exec`.
    pub async fn exec(&self, exec: &ExecPlan, after: After) -> Result<Program, BackendError> {
        let starting = self.begin_exec(exec, after)?;
        starting.finish().await.map_err(|it| it.of(exec))
    }

    /// Asks for the program of `exec` without waiting for it: it starts when the walls stand.
    pub fn begin_exec(&self, exec: &ExecPlan, after: After) -> Result<Starting, BackendError> {
        self.begin(order(exec, after)).map_err(|it| it.of(exec))
    }
}

/// What the guest is told about a program.
fn order(exec: &ExecPlan, after: After) -> Order {
    let bytes = |text: &OsString| text.as_encoded_bytes().to_vec();
    let variable = |(name, value): (&OsString, &OsString)| {
        [&bytes(name), &b"="[..], &bytes(value)].concat()
    };
    Order {
        argv: exec.argv().iter().map(bytes).collect(),
        env: exec.env().iter().map(variable).collect(),
        dir: exec.dir().as_path().as_os_str().as_encoded_bytes().to_vec(),
        stdin: exec.stdin(),
        terminal: exec.terminal(),
        after,
    }
}

impl NotStarted {
    /// Why the program of `exec` did not start.
    pub fn of(self, exec: &ExecPlan) -> BackendError {
        let (stage, source) = match self {
            Self::Failed(error) => return error,
            Self::Refused { stage, source } => (stage, source),
        };
        let program = exec.argv().first().map(|it| escape_bytes(it.as_encoded_bytes()));
        let program = program.unwrap_or_default();
        match stage {
            Stage::Clone | Stage::Prepare => {
                BackendError::System { action: "start a program", source }
            }
            Stage::Dir => BackendError::Dir { dir: exec.dir().to_string(), source },
            Stage::Execute if source.kind() == io::ErrorKind::NotFound => {
                BackendError::NotFound { program }
            }
            Stage::Execute => BackendError::NotExecutable { program, source },
        }
    }
}
