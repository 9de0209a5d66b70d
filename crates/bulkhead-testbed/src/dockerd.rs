//! A Docker daemon.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::getuid;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{Reason, cgroup, child, command, find, output, rootfs};

/// How it is started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where its containers are counted.
    pub cgroup: String,
    /// With which arguments it starts gVisor.
    pub runsc: &'static [&'static str],
    /// What else it is told.
    pub more: Vec<String>,
}

impl Setup {
    /// One whose containers are counted in a cgroup of its own that begins with `cgroup`, and where
    /// gVisor needs nothing of the machine: neither its virtualisation nor its network.
    pub fn new(cgroup: &str) -> Self {
        // Not that of another daemon of this process: who ends first removes it.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (own, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self {
            cgroup: format!("{cgroup}-{own}-{next}"),
            runsc: &["--platform=ptrace", "--network=none"],
            more: Vec::new(),
        }
    }
}

/// A daemon that answers. `Drop` stops it if it is ours.
#[derive(Debug)]
pub struct Dockerd {
    address: String,
    /// Nothing if it is somebody else's.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    /// Where it keeps everything.
    dir: TempDir,
    child: Child,
    setup: Setup,
}

impl Dockerd {
    /// The daemon at `address`, which is somebody else's.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), own: None }
    }

    /// The daemon that `BULKHEAD_TEST_DOCKER` names, for those who start many tests in processes of
    /// their own, or a new one; with [`crate::IMAGE`].
    pub fn ready(setup: Setup) -> Result<Self, Reason> {
        #[expect(clippy::disallowed_methods, reason = "a test has no configuration but this")]
        let named = std::env::var("BULKHEAD_TEST_DOCKER");
        let dockerd = named.map_or_else(|_| Self::start(setup), |it| Ok(Self::at(&it)))?;
        dockerd.furnish()?;
        Ok(dockerd)
    }

    /// A new daemon.
    pub fn start(setup: Setup) -> Result<Self, Reason> {
        if !getuid().is_root() {
            return Err("a private dockerd needs root".to_owned());
        }
        // Sockets have short names.
        let dir = tempfile::Builder::new().prefix("bh-dockerd-").tempdir_in("/tmp");
        let dir = dir.map_err(|error| error.to_string())?;
        let child = launch(dir.path(), &setup)?;
        let address = format!("unix://{}", dir.path().join("socket").display());
        let mut dockerd = Self { address, own: Some(Own { dir, child, setup }) };
        dockerd.wait()?;
        Ok(dockerd)
    }

    /// `unix://…`, for `DOCKER_HOST`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A directory of its own next to the daemon's data, which goes with it.
    pub fn scratch(&self, name: &str) -> Result<PathBuf, Reason> {
        let own = self.own.as_ref().ok_or("it is somebody else's")?;
        let path = own.dir.path().join(name);
        fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// Docker's client, for this daemon.
    pub fn client(&self) -> Result<Command, Reason> {
        let mut docker = command("docker")?;
        docker.env("DOCKER_HOST", &self.address).stdin(Stdio::null());
        Ok(docker)
    }

    /// What Docker's client says, as long as it succeeds.
    pub fn docker(&self, args: &[&str]) -> Result<String, Reason> {
        output(self.client()?.args(args))
    }

    /// Makes [`crate::IMAGE`] if it is not there.
    pub fn furnish(&self) -> Result<(), Reason> {
        rootfs::furnish(&|args| self.docker(args))
    }

    /// Makes [`crate::IMAGE`] without programs, for those who show a container the host's `/usr`.
    pub fn furnish_without_programs(&self) -> Result<(), Reason> {
        rootfs::furnish_without_programs(&|args| self.docker(args))
    }

    /// Lets every user of this host talk to it, who is as good as root then.
    pub fn open_to_all(&self) -> Result<(), Reason> {
        let own = self.own.as_ref().ok_or("it is somebody else's")?;
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(|error| error.to_string())
        };
        open(own.dir.path(), 0o711)?;
        open(&own.dir.path().join("socket"), 0o666)
    }

    /// Ends the daemon without asking it, as a crash would.
    pub fn crash(&mut self) -> Result<(), Reason> {
        let child = &mut self.own.as_mut().ok_or("it is somebody else's")?.child;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Starts it again, with what it had.
    pub fn restart(&mut self) -> Result<(), Reason> {
        let own = self.own.as_mut().ok_or("it is somebody else's")?;
        child::stop(&mut own.child);
        end_leftovers(own.dir.path());
        own.child = launch(own.dir.path(), &own.setup)?;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Reason> {
        let asked = Self::at(&self.address);
        let Some(own) = &mut self.own else { return Ok(()) };
        let answers = || asked.docker(&["version", "--format", "{{.Server.Version}}"]).is_ok();
        child::wait(&mut own.child, own.dir.path(), answers)
            .map_err(|why| format!("dockerd: {why}"))
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            child::stop(&mut own.child);
            end_leftovers(own.dir.path());
            child::unmount_all(own.dir.path());
            cgroup::forget(&own.setup.cgroup);
        }
    }
}

fn launch(dir: &Path, setup: &Setup) -> Result<Child, Reason> {
    let at = |name: &str| dir.join(name).display().to_string();
    let config = json!({ "runtimes": runtimes(setup) }).to_string();
    fs::write(dir.join("daemon.json"), config).map_err(|error| error.to_string())?;
    let dockerd = find("dockerd").ok_or("dockerd is not installed (package docker.io)")?;
    // It must not outlive us even if we are killed; setpriv(1) becomes the daemon.
    let mut command = command("setpriv")?;
    command
        .args(["--pdeathsig", "TERM", "--"])
        .arg(dockerd)
        .args(["--config-file", &at("daemon.json")])
        .args(["--host", &format!("unix://{}", at("socket")), "--pidfile", &at("pid")])
        .args(["--data-root", &at("data"), "--exec-root", &at("exec")])
        .args(["--bridge", "none", "--iptables=false", "--ip6tables=false"])
        .args(["--ip-forward=false", "--cgroup-parent", &format!("/{}", setup.cgroup)])
        .args(&setup.more);
    child::launch(&mut command, dir)
}

/// What it starts containers with, besides runc.
fn runtimes(setup: &Setup) -> Map<String, Value> {
    let crun = find("crun").map(|path| ("crun".to_owned(), json!({ "path": path })));
    let runsc = find("runsc")
        .map(|path| ("runsc".to_owned(), json!({ "path": path, "runtimeArgs": setup.runsc })));
    crun.into_iter().chain(runsc).collect()
}

/// Ends what a dockerd that was killed has left. The next one would wait for its shims, and for its
/// containerd, which counts as alive until somebody has taken note of its death.
fn end_leftovers(dir: &Path) {
    // If there is none, all the better.
    fs::remove_file(dir.join("exec/containerd/containerd.pid")).unwrap_or_default();
    child::end_all(&dir.join("exec/containerd/").display().to_string());
}

#[cfg(test)]
mod tests {
    use super::Setup;

    #[test]
    fn no_two_daemons_count_their_containers_in_one_place() {
        assert_ne!(Setup::new("x").cgroup, Setup::new("x").cgroup);
    }
}
