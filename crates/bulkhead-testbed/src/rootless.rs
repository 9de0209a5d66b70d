//! A Docker daemon of an ordinary user.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Child, Command},
};

use rustix::process::getuid;
use tempfile::TempDir;

use crate::{Dockerd, Reason, child, find, remapped, rootfs};

/// What a copy of the host's directories still leads to, and becomes the daemon.
const SCRIPT: &str = r#"rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@""#;

/// A daemon that answers. `Drop` stops it and what it started.
#[derive(Debug)]
pub struct Rootless {
    address: String,
    dir: TempDir,
    child: Child,
}

impl Rootless {
    /// One of the user and group `id`, with [`crate::IMAGE`].
    pub fn ready(id: u32) -> Result<Self, Reason> {
        if !getuid().is_root() {
            return Err("a private dockerd of somebody else needs root".to_owned());
        }
        for (name, package) in [("dockerd", "docker.io"), ("rootlesskit", "rootlesskit")] {
            find(name).ok_or_else(|| format!("{name} is not installed (package {package})"))?;
        }
        // Sockets have short names.
        let dir = tempfile::Builder::new().prefix("bh-rootless-").tempdir_in("/tmp");
        let dir = dir.map_err(|error| error.to_string())?;
        furnish(dir.path(), id).map_err(|error| error.to_string())?;
        let child = child::launch(&mut command(dir.path(), id)?, dir.path())?;
        let address = format!("unix://{}", dir.path().join("run/socket").display());
        let mut daemon = Self { address, dir, child };
        daemon.wait()?;
        rootfs::furnish(&|args| Dockerd::at(&daemon.address).docker(args))?;
        Ok(daemon)
    }

    /// `unix://…`, for `DOCKER_HOST`.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn wait(&mut self) -> Result<(), Reason> {
        let asked = Dockerd::at(&self.address);
        let answers = || asked.docker(&["version", "--format", "{{.Server.Version}}"]).is_ok();
        child::wait(&mut self.child, self.dir.path(), answers)
            .map_err(|why| format!("a rootless dockerd: {why}"))
    }
}

impl Drop for Rootless {
    fn drop(&mut self) {
        child::stop(&mut self.child);
        child::end_all(&format!("{}/", self.dir.path().display()));
        child::unmount_all(self.dir.path());
    }
}

/// Directories of the user's own, and lists in which there is one.
fn furnish(dir: &Path, id: u32) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
    for name in ["home", "run", "tmp"] {
        fs::create_dir(dir.join(name))?;
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o700))?;
        chown(dir.join(name), Some(id), Some(id))?;
    }
    remapped::write(dir, id, &dir.join("home"))
}

/// The daemon in a user namespace, as Docker's own script for that starts it.
fn command(dir: &Path, id: u32) -> Result<Command, Reason> {
    let at = |name: &str| dir.join(name).display().to_string();
    let id = id.to_string();
    let mut command = remapped::enter(dir)?;
    command
        .args(["setpriv", "--pdeathsig", "TERM", "--reuid", &id, "--regid", &id])
        .args(["--clear-groups", "--", "rootlesskit", "--net=host", "--copy-up=/run"])
        .args(["--propagation=rslave", "--state-dir", &at("run/kit")])
        .args(["sh", "-ec", SCRIPT, "sh", "dockerd", "--rootless"])
        .args(["--host", &format!("unix://{}", at("run/socket")), "--pidfile", &at("run/pid")])
        .args(["--data-root", &at("home/data"), "--exec-root", &at("run/exec")])
        .args(["--bridge", "none", "--iptables=false", "--ip6tables=false"])
        .arg("--ip-forward=false")
        .current_dir(dir.join("tmp"))
        .env("HOME", dir.join("home"))
        .env("XDG_RUNTIME_DIR", dir.join("run"))
        .env("TMPDIR", dir.join("tmp"));
    Ok(command)
}
