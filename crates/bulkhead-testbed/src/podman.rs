//! Podman's service.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::getuid;
use tempfile::TempDir;

use crate::{Reason, cgroup, child, command, find, output, remapped, rootfs};

/// Where Podman counts its containers, in every hierarchy.
const CGROUP: &str = "libpod_parent";

/// Whose service it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Root's: its containers have users of the host.
    Roots,
    /// Somebody's without rights, by user and group: its containers have subordinate ones.
    Users(u32),
}

/// A service that answers. `Drop` stops it and what it started.
#[derive(Debug)]
pub struct Podman {
    address: String,
    dir: TempDir,
    child: Child,
    /// Whether nobody had containers counted there before.
    own_cgroup: bool,
}

impl Podman {
    /// A service of its own that starts containers with `runtime`, with [`crate::IMAGE`].
    pub fn ready(whose: Whose, runtime: &str) -> Result<Self, Reason> {
        if !getuid().is_root() {
            return Err("a private Podman needs root".to_owned());
        }
        let podman = find("podman").ok_or("podman is not installed (package podman)")?;
        // Sockets have short names.
        let dir = tempfile::Builder::new().prefix("bh-podman-").tempdir_in("/tmp");
        let dir = dir.map_err(|error| error.to_string())?;
        furnish(dir.path(), whose, runtime).map_err(|error| error.to_string())?;
        let address = format!("unix://{}", dir.path().join("run/socket").display());
        let own_cgroup = !Path::new("/sys/fs/cgroup/memory").join(CGROUP).exists()
            && !Path::new("/sys/fs/cgroup").join(CGROUP).exists();
        let mut command = match whose {
            Whose::Roots => command("setpriv")?,
            Whose::Users(_) => {
                let mut enter = remapped::enter(dir.path())?;
                enter.arg("setpriv");
                enter
            }
        };
        command.args(["--pdeathsig", "TERM"]);
        if let Whose::Users(id) = whose {
            let id = id.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        command.arg("--").arg(podman).args(["system", "service", "--time", "0", &address]);
        settle(&mut command, dir.path());
        let child = child::launch(&mut command, dir.path())?;
        let mut service = Self { address, dir, child, own_cgroup };
        service.wait()?;
        rootfs::furnish(&|args| docker(&service.address, args))?;
        Ok(service)
    }

    /// `unix://…`, for `CONTAINER_HOST` and `DOCKER_HOST`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What Docker's client says to it, as long as it succeeds.
    pub fn docker(&self, args: &[&str]) -> Result<String, Reason> {
        docker(&self.address, args)
    }

    fn wait(&mut self) -> Result<(), Reason> {
        let address = self.address.clone();
        let answers = || docker(&address, &["version"]).is_ok();
        child::wait(&mut self.child, self.dir.path(), answers)
            .map_err(|why| format!("podman: {why}"))
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        child::stop(&mut self.child);
        // Those who watch over containers name its directory; who keeps a user's namespaces does
        // not.
        let pause = fs::read_to_string(self.dir.path().join("run/libpod/tmp/pause.pid"));
        let pause = pause.ok().and_then(|it| it.trim().parse().ok());
        if let Some(pid) = pause.and_then(rustix::process::Pid::from_raw) {
            // It may have ended meanwhile.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)
                .unwrap_or_default();
        }
        child::end_all(&format!("{}/", self.dir.path().display()));
        child::unmount_all(self.dir.path());
        if self.own_cgroup {
            cgroup::forget(CGROUP);
        }
    }
}

fn docker(address: &str, args: &[&str]) -> Result<String, Reason> {
    let mut docker = command("docker")?;
    output(docker.args(args).env("DOCKER_HOST", address).stdin(Stdio::null()))
}

/// Everything that it reads, and directories of its own.
fn furnish(dir: &Path, whose: Whose, runtime: &str) -> std::io::Result<()> {
    let root = dir.display();
    fs::write(dir.join("containers.conf"), configuration(dir, runtime)?)?;
    fs::write(
        dir.join("storage.conf"),
        format!(
            "[storage]\ndriver = \"overlay\"\nrunroot = \"{root}/run/storage\"\n\
             graphroot = \"{root}/home/storage\"\n"
        ),
    )?;
    for name in ["home", "run", "tmp"] {
        fs::create_dir(dir.join(name))?;
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o700))?;
    }
    let Whose::Users(id) = whose else { return Ok(()) };
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
    for name in ["home", "run", "tmp"] {
        chown(dir.join(name), Some(id), Some(id))?;
    }
    // Who is nobody on this host is somebody to Podman.
    remapped::write(dir, id, &dir.join("home"))
}

/// Where a runtime is.
fn line(name: &str, path: &Path) -> String {
    format!("{name} = [\"{}\"]\n", path.display())
}

/// Its runtimes are where this system has them.
fn configuration(dir: &Path, runtime: &str) -> std::io::Result<String> {
    let mut text = format!(
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         runtime = \"{runtime}\"\n[engine.runtimes]\n"
    );
    for name in ["runc", "crun"] {
        if let Some(path) = find(name) {
            text.push_str(&line(name, &path));
        }
    }
    if let Some(path) = find("runsc") {
        // Podman has no arguments for a runtime.
        let script = dir.join("runsc");
        let flags = "--platform=ptrace --network=none";
        fs::write(&script, format!("#!/bin/sh\nexec {} {flags} \"$@\"\n", path.display()))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        text.push_str(&line("runsc", &script));
    }
    Ok(text)
}

/// Whatever it asks the environment for is its own.
fn settle(command: &mut Command, dir: &Path) {
    command
        // Who watches over a container leaves a note where it was started.
        .current_dir(dir.join("tmp"))
        .env("HOME", dir.join("home"))
        .env("XDG_RUNTIME_DIR", dir.join("run"))
        .env("TMPDIR", dir.join("tmp"))
        .env("CONTAINERS_CONF", dir.join("containers.conf"))
        .env("CONTAINERS_STORAGE_CONF", dir.join("storage.conf"));
}
