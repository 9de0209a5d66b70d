//! What a test asks for.

use std::{ffi::OsString, path::Path, time::Duration};

use bulkhead_spec::{
    Access, Bytes, EnvFiles, Exec, GuestPath, HostPath, Span, Spec, Workspace,
};

/// A program and the room that it wants, and how much of its output the outcome keeps.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) spec: Spec,
    pub(crate) exec: Exec,
    pub(crate) keep: Bytes,
}

/// One program, with variables that let it find others.
pub(crate) fn program(argv: &[&str]) -> Ask {
    let argv = argv.iter().map(OsString::from).collect();
    let env = [("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into();
    let exec = Exec { argv, env, ..Exec::default() };
    Ask { spec: Spec::default(), exec, keep: Bytes(1 << 20) }
}

/// A shell that runs `script`.
pub(crate) fn sh(script: &str) -> Ask {
    program(&["/bin/sh", "-c", script])
}

impl Ask {
    /// This, and `change` made to it.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// This, on `dir` as a live workspace.
    pub(crate) fn on(self, dir: &Path) -> Self {
        let workspace = Workspace {
            dir: HostPath::try_from(dir.to_owned()).unwrap(),
            access: Access::ReadWrite,
            env_files: EnvFiles::Hidden,
            unprotected: Vec::new(),
        };
        self.with(|it| it.spec.workspace = Some(workspace))
    }

    /// This, starting in `dir`.
    pub(crate) fn within(self, dir: &Path) -> Self {
        let dir = GuestPath::try_from(dir.to_owned()).unwrap();
        self.with(|it| it.exec.dir = Some(dir))
    }

    /// This, stopped after `timeout`.
    pub(crate) fn stopped_after(self, timeout: Duration) -> Self {
        self.with(|it| it.exec.timeout = Some(Span(timeout)))
    }
}
