//! Real work inside a sandbox, looked at from outside.

mod build;
mod git;
mod managed;
mod scripts;

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use crate::host::{Host, Ran};

/// An ordinary user that this machine does not know by name.
pub(crate) const SOMEBODY: u32 = 54321;

/// A project, and somebody who works on it.
pub(crate) struct Work {
    pub(crate) host: Host,
    bulkhead: PathBuf,
    /// Who works, if it is not who runs the tests.
    worker: Option<u32>,
    /// Whose project it is, if it is not the worker's.
    owner: Option<u32>,
    env: Vec<(&'static str, String)>,
}

impl Work {
    /// The project and the work of whoever runs the tests.
    pub(crate) fn new() -> Self {
        let bulkhead = PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"));
        Self { host: Host::new(), bulkhead, worker: None, owner: None, env: Vec::new() }
    }

    /// The same of an ordinary user: another one if root runs the tests.
    pub(crate) fn of_ordinary_user() -> Self {
        let mut work = Self::new();
        if !is_root() {
            return work;
        }
        // Where the tests are built, an ordinary user may not look.
        let copy = work.host.path().join("bulkhead");
        fs::copy(&work.bulkhead, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        work.bulkhead = copy;
        work.worker = Some(SOMEBODY);
        give(work.host.path(), SOMEBODY);
        work
    }

    /// Root's work on an ordinary user's project; without root, one user's on their own.
    fn on_a_project_of_another() -> Self {
        let mut work = Self::new();
        if is_root() {
            work.owner = Some(SOMEBODY);
            // The owner must reach it.
            fs::set_permissions(work.host.path(), fs::Permissions::from_mode(0o755)).unwrap();
            give(&work.host.project(), SOMEBODY);
            give(&work.host.home(), SOMEBODY);
        }
        work
    }

    /// With another variable.
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Writes a file of the project.
    fn write(&self, path: &str, text: &str) {
        let path = self.host.write(&format!("project/{path}"), text);
        if let Some(owner) = self.owner.or(self.worker) {
            let ours = path.ancestors().take_while(|it| *it != self.host.project());
            ours.for_each(|it| chown(it, Some(owner), Some(owner)).unwrap());
        }
    }

    /// What `script` prints inside. It ends well, without complaints, and what it makes belongs to
    /// the owner of the project.
    fn inside(&self, script: &str) -> String {
        let ran = self.run(&["--", "sh", "-ec", script]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.shown());
        ran.stdout
    }

    /// What comes of `bulkhead run` with these arguments.
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.host.program(self.bulkhead.to_str().unwrap());
        command.args(["run", "--timeout", "3m"]).args(args);
        let ran = self.host.ended(self.started_by(self.worker, &mut command));
        self.check_owner(&self.host.project());
        ran
    }

    /// What comes of `script` outside, in which the command is `$0`.
    pub(crate) fn shell(&self, script: &str) -> Ran {
        let mut command = self.host.program("/bin/sh");
        command.args(["-c", script]).arg(&self.bulkhead);
        self.host.ended(self.started_by(self.worker, &mut command))
    }

    /// What `script` prints outside, run by the owner of the project.
    fn outside(&self, script: &str) -> String {
        let mut command = self.host.program("/bin/sh");
        command.args(["-ec", script]);
        let owner = self.owner.or(self.worker);
        let ran = self.host.ended(self.started_by(owner, &mut command));
        assert_eq!(ran.code, Some(0), "{}", ran.shown());
        ran.stdout
    }

    fn started_by<'a>(&self, user: Option<u32>, command: &'a mut Command) -> &'a mut Command {
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)))
    }

    /// Everything in and below `dir` belongs to whom the project belongs to.
    fn check_owner(&self, dir: &Path) {
        let project = self.host.project().symlink_metadata().unwrap();
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let found = entry.metadata().unwrap();
            let whose = (found.uid(), found.gid());
            assert_eq!(whose, (project.uid(), project.gid()), "{:?}", entry.path());
            if found.is_dir() {
                self.check_owner(&entry.path());
            }
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes everything in and below `path` belong to `user`.
fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give(&entry.path(), user);
    }
}
