//! No walls at all: programs run as children on the host.
//!
//! It upholds nothing, so a plan that requires anything is never placed here; it must be asked for
//! by name, and whoever asks is warned each time.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use bulkhead_policy::{ExecPlan, Plan};
use bulkhead_spec::{Ending, Guarantee, Root, Stdin, Terminal, Usage, escape_bytes};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use tokio::process::{Child, Command};

use crate::{Backend, BackendError, Finding, Process, ProcessHandle, Sandbox, Streams};

/// Runs programs directly on the host.
#[derive(Debug, Default)]
pub struct Unwalled;

#[derive(Default)]
struct OpenAir {
    groups: Mutex<Vec<Pid>>,
}

struct Free {
    child: Child,
    group: Pid,
}

struct FreeHandle(Pid);

/// Refuses a disk that begins with something: there is none of its own.
fn check_disk(plan: &Plan, backend: &'static str) -> Result<(), BackendError> {
    if plan.disk().is_plain() {
        return Ok(());
    }
    Err(BackendError::Unsupported { backend, what: "a sandbox on a checkpoint" })
}

#[async_trait::async_trait]
impl Backend for Unwalled {
    fn name(&self) -> &'static str {
        "none"
    }

    fn findings(&self) -> Vec<Finding> {
        // Not even `NothingSurvives`: a program that calls setsid(2) leaves its group.
        let none = |it| Finding::never(it, "there are no walls");
        Guarantee::ALL
            .into_iter()
            .filter(|it| *it != Guarantee::OutputBounded)
            .map(none)
            .collect()
    }

    async fn create(&self, _id: &str, plan: &Plan) -> Result<Box<dyn Sandbox>, BackendError> {
        check_disk(plan, self.name())?;
        match plan.root() {
            Root::Host => Ok(Box::<OpenAir>::default()),
            Root::Directory(_) | Root::Image(_) => Err(BackendError::Unsupported {
                backend: self.name(),
                what: "a sandbox with another root",
            }),
        }
    }

    async fn sweep(&self) -> Result<Vec<String>, BackendError> {
        Ok(Vec::new())
    }

    fn describe(&self, _plan: &Plan) -> Result<Vec<String>, BackendError> {
        Ok(vec!["start the program on the host, without any wall".to_owned()])
    }
}

#[async_trait::async_trait]
impl Sandbox for OpenAir {
    async fn exec(&self, exec: &ExecPlan) -> Result<Box<dyn Process>, BackendError> {
        let child = spawn(exec)?;
        let group = group_of(&child)?;
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group);
        Ok(Box::new(Free { child, group }))
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        Ok(Usage::default())
    }

    async fn kill(&self) -> Result<(), BackendError> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone();
        groups.into_iter().try_for_each(|group| signal_group(group, Signal::KILL))
    }

    async fn destroy(self: Box<Self>) -> Result<(), BackendError> {
        self.kill().await
    }
}

#[async_trait::async_trait]
impl Process for Free {
    fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    fn take_streams(&mut self) -> Option<Streams> {
        let stdin = self.child.stdin.take();
        let stdout = self.child.stdout.take()?;
        let stderr = self.child.stderr.take()?;
        Some(Streams {
            stdin: stdin.map(|it| Box::new(it) as _),
            stdout: Box::new(stdout),
            stderr: Some(Box::new(stderr)),
        })
    }

    async fn wait(&mut self) -> Result<Ending, BackendError> {
        let status = self.child.wait().await;
        let status = status
            .map_err(|source| BackendError::System { action: "wait for a program", source })?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited { code },
            (None, signal) => Ending::Signaled { signal: signal.unwrap_or_default() },
        })
    }

    fn handle(&self) -> Box<dyn ProcessHandle> {
        Box::new(FreeHandle(self.group))
    }
}

#[async_trait::async_trait]
impl ProcessHandle for FreeHandle {
    async fn signal(&self, signal: Signal) -> Result<(), BackendError> {
        signal_group(self.0, signal)
    }

    async fn resize(&self, _terminal: Terminal) -> Result<(), BackendError> {
        Ok(())
    }
}

fn spawn(exec: &ExecPlan) -> Result<Child, BackendError> {
    if exec.terminal().is_some() {
        return Err(BackendError::Unsupported { backend: "none", what: "a terminal" });
    }
    let (program, args) =
        exec.argv().split_first().ok_or(BackendError::Guest("no program".to_owned()))?;
    // The kernel's answer to a start would not tell a missing directory from a missing program.
    std::fs::metadata(exec.dir().as_path())
        .map_err(|source| BackendError::Dir { dir: exec.dir().to_string(), source })?;
    #[expect(clippy::disallowed_methods, reason = "this is the backend")]
    let mut command = Command::new(program);
    let stdin = match exec.stdin() {
        Stdin::Empty => Stdio::null(),
        Stdin::Piped => Stdio::piped(),
    };
    command
        .args(args)
        .current_dir(exec.dir().as_path())
        .env_clear()
        .envs(exec.env())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let shown = || escape_bytes(program.as_encoded_bytes());
    command.spawn().map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            BackendError::NotFound { program: shown() }
        } else {
            BackendError::NotExecutable { program: shown(), source }
        }
    })
}

fn group_of(child: &Child) -> Result<Pid, BackendError> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    id.ok_or_else(|| BackendError::System {
        action: "find the process group of a program",
        source: Errno::SRCH.into(),
    })
}

fn signal_group(group: Pid, signal: Signal) -> Result<(), BackendError> {
    match kill_process_group(group, signal) {
        // Gone already is what we wanted.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => {
            Err(BackendError::System { action: "signal a program", source: errno.into() })
        }
    }
}
