//! A Docker daemon for tests: its own data, socket and cgroup, no network, and an image that is made
//! of this host's own files, since none can be pulled.
//!
//! `BULKHEAD_TEST_DOCKER` names one that runs already, for those who start many tests in processes
//! of their own. Else it is started here and ends with this process, however that ends.

pub(crate) mod cgroup;
mod rootfs;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::json;
use tempfile::TempDir;

/// What a container has that is asked for no image.
pub(crate) const IMAGE: &str = "bulkhead/agent:latest";

const PATIENCE: Duration = Duration::from_mins(1);
/// Where its containers are counted.
const CGROUP: &str = "tests-of-dockerd";

/// A daemon that answers and has the image.
pub(crate) struct Dockerd {
    address: String,
    /// Where it keeps everything, and itself; nothing if it is somebody else's.
    own: Option<(TempDir, Child)>,
}

/// Why there is no daemon.
pub(crate) type Reason = String;

impl Dockerd {
    /// The daemon that is named, or a new one.
    pub(crate) fn ready() -> Result<Self, Reason> {
        #[expect(clippy::disallowed_methods, reason = "a test has no configuration but this")]
        if let Ok(address) = std::env::var("BULKHEAD_TEST_DOCKER") {
            let there = Self { address, own: None };
            there.furnish()?;
            return Ok(there);
        }
        Self::start()
    }

    /// A new daemon.
    pub(crate) fn start() -> Result<Self, Reason> {
        if !getuid().is_root() {
            return Err("a private dockerd needs root".to_owned());
        }
        let dir = tempfile::Builder::new().prefix("bulkhead-dockerd-").tempdir();
        let dir = dir.map_err(|error| error.to_string())?;
        let child = launch(dir.path())?;
        let address = format!("unix://{}", dir.path().join("socket").display());
        let mut dockerd = Self { address, own: Some((dir, child)) };
        dockerd.wait_until_it_answers()?;
        dockerd.furnish()?;
        Ok(dockerd)
    }

    /// `unix://…`
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What Docker's client says, as long as it succeeds.
    pub(crate) fn docker(&self, args: &[&str]) -> Result<String, Reason> {
        let mut docker = command("docker")?;
        docker.args(args).env("DOCKER_HOST", &self.address).stdin(Stdio::null());
        output(&mut docker)
    }

    /// Ends the daemon without asking it, as a crash would.
    pub(crate) fn crash(&mut self) -> Result<(), Reason> {
        let (_, child) = self.own.as_mut().ok_or("it is somebody else's")?;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Starts it again, with what it had.
    pub(crate) fn restart(&mut self) -> Result<(), Reason> {
        let (dir, child) = self.own.as_mut().ok_or("it is somebody else's")?;
        stop(child);
        end_leftovers(dir.path());
        *child = launch(dir.path())?;
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Reason> {
        let deadline = Instant::now() + PATIENCE;
        while self.docker(&["version", "--format", "{{.Server.Version}}"]).is_err() {
            let Some((dir, child)) = &mut self.own else { return Err("it is gone".to_owned()) };
            let ended = child.try_wait().is_ok_and(|status| status.is_some());
            if ended || deadline < Instant::now() {
                let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(format!("dockerd does not answer: {last}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Makes the image if it is not there.
    fn furnish(&self) -> Result<(), Reason> {
        if self.docker(&["image", "inspect", IMAGE]).is_ok() {
            return Ok(());
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let tar = rootfs::pack(dir.path())?;
        self.docker(&["import", &tar.display().to_string(), IMAGE]).map(drop)
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        if let Some((dir, child)) = &mut self.own {
            stop(child);
            end_leftovers(dir.path());
            cgroup::forget(CGROUP);
        }
    }
}

fn launch(dir: &Path) -> Result<Child, Reason> {
    let at = |name: &str| dir.join(name).display().to_string();
    let installed =
        |name: &str| find(name).map(|path| (name.to_owned(), json!({ "path": path })));
    let mut runtimes: serde_json::Map<String, serde_json::Value> =
        installed("crun").into_iter().collect();
    if let Some((name, _)) = installed("runsc") {
        // What needs nothing of the machine: neither its virtualisation nor its network.
        let runsc = json!({ "path": find("runsc"), "runtimeArgs": ["--platform=ptrace", "--network=none"] });
        runtimes.insert(name, runsc);
    }
    let config = json!({ "runtimes": runtimes }).to_string();
    let log = fs::write(dir.join("daemon.json"), config)
        .and_then(|()| File::options().append(true).create(true).open(dir.join("log")))
        .and_then(|log| Ok((log.try_clone()?, log)));
    let (stdout, stderr) = log.map_err(|error| error.to_string())?;
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
        .args(["--ip-forward=false", "--cgroup-parent", &format!("/{CGROUP}")])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    command.spawn().map_err(|error| format!("could not start dockerd: {error}"))
}

/// Asks it to end, so that it takes its containerd with it and unmounts its data.
fn stop(daemon: &mut Child) {
    let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
    let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    let deadline = Instant::now() + PATIENCE;
    while asked && Instant::now() < deadline {
        match daemon.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    drop(daemon.kill());
    drop(daemon.wait());
}

/// Ends what a dockerd that was killed has left. The next one would wait for its shims, and for its
/// containerd, which counts as alive until somebody has taken note of its death.
fn end_leftovers(dir: &Path) {
    // If there is none, all the better.
    fs::remove_file(dir.join("exec/containerd/containerd.pid")).unwrap_or_default();
    let mark = dir.join("exec/containerd/").display().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return };
    let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    for pid in pids.filter_map(Pid::from_raw) {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        if String::from_utf8_lossy(&line.unwrap_or_default()).contains(&mark) {
            // It may have ended meanwhile.
            kill_process(pid, Signal::KILL).unwrap_or_default();
        }
    }
}

/// Where a program of that name is, in the places of the system.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    dirs.iter().map(|dir| Path::new(dir).join(name)).find(|it| it.exists())
}

/// A program of the system.
fn command(name: &str) -> Result<Command, Reason> {
    let path = find(name).ok_or_else(|| format!("{name} is not installed"))?;
    #[expect(clippy::disallowed_methods, reason = "the daemon is what is tested against")]
    Ok(Command::new(path))
}

/// What it says, as long as it succeeds.
fn output(command: &mut Command) -> Result<String, Reason> {
    let said = command.output();
    let said = said.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&said.stderr).trim().to_owned())
}
