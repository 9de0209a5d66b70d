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
    path::Path,
    process::Command,
};

use crate::host::{Host, Ran, SOMEBODY, give};

/// A project, and somebody who works on it.
pub(crate) struct Work {
    pub(crate) host: Host,
    /// Whose project it is, if it is not the worker's.
    owner: Option<u32>,
    env: Vec<(&'static str, String)>,
}

impl Work {
    /// The project and the work of whoever runs the tests.
    pub(crate) fn new() -> Self {
        Self { host: Host::new(), owner: None, env: Vec::new() }
    }

    /// The same of an ordinary user: another one if root runs the tests.
    pub(crate) fn of_ordinary_user() -> Self {
        Self { host: Host::of_ordinary_user(), ..Self::new() }
    }

    /// Root's work on an ordinary user's project; without root, one user's on their own.
    fn on_a_project_of_another() -> Self {
        let mut work = Self::new();
        if rustix::process::geteuid().is_root() {
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
        if let Some(owner) = self.owner.or(self.host.worker()) {
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
        let mut command = self.host.command(["run", "--timeout", "3m"]);
        let ran = self.host.ended(self.dressed(command.args(args)));
        self.check_owner(&self.host.project());
        ran
    }

    /// What comes of `script` outside, in which the command is `$0`.
    pub(crate) fn shell(&self, script: &str) -> Ran {
        self.host.ended(self.dressed(&mut self.host.shell(script)))
    }

    /// What `script` prints outside, run by the owner of the project.
    fn outside(&self, script: &str) -> String {
        let mut command = self.host.program("/bin/sh");
        command.args(["-ec", script]);
        if let Some(owner) = self.owner {
            command.uid(owner).gid(owner);
        }
        let ran = self.host.ended(self.dressed(&mut command));
        assert_eq!(ran.code, Some(0), "{}", ran.shown());
        ran.stdout
    }

    fn dressed<'a>(&self, command: &'a mut Command) -> &'a mut Command {
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

/// The user that programs see themselves as is somebody on the host as well.
#[test]
fn what_is_made_in_a_project_belongs_to_its_owner_whoever_that_is() {
    let us = rustix::process::geteuid();
    // Others than root can give nothing away.
    let owners = if us.is_root() { vec![0, 1000, 1001] } else { vec![us.as_raw()] };
    for owner in owners {
        let work = Work::new();
        give(&work.host.project(), owner);
        assert_eq!(work.inside("touch made; stat -c %u:%g . made"), "1000:1000\n1000:1000\n");
        let made = work.host.project().join("made").metadata().unwrap();
        assert_eq!((made.uid(), made.gid()), (owner, owner));
    }
}
