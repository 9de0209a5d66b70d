//! A Docker daemon to measure against: the machine's own if one answers, else a private one.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// The image that the bench imports.
pub(crate) const IMAGE: &str = "bulkhead-bench:local";

/// A daemon that answers and has the image. `Drop` removes the image, and stops the daemon if
/// it is ours.
pub(crate) struct Dockerd {
    /// `unix://…`, or nothing for the machine's own.
    host: Option<String>,
    daemon: Option<Child>,
}

impl Dockerd {
    pub(crate) fn ready(
        scratch: &Scratch,
        bundle: &Bundle,
        cgroup: &CgroupParent,
    ) -> Result<Self, Trouble> {
        if programs::find("docker").is_none() {
            return Err(Trouble::new("docker is not installed"));
        }
        let own = Self { host: None, daemon: None };
        let dockerd = if own.answers() { own } else { Self::launch(scratch, cgroup)? };
        dockerd.import(scratch, &bundle.rootfs)?;
        Ok(dockerd)
    }

    /// A daemon of our own with the image, whatever else answers.
    pub(crate) fn private(
        scratch: &Scratch,
        bundle: &Bundle,
        cgroup: &CgroupParent,
    ) -> Result<Self, Trouble> {
        let dockerd = Self::launch(scratch, cgroup)?;
        dockerd.import(scratch, &bundle.rootfs)?;
        Ok(dockerd)
    }

    /// What a client needs in its environment to find it.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        self.host.iter().map(|host| ("DOCKER_HOST".to_owned(), host.clone())).collect()
    }

    /// Which daemon answers; the client names only itself.
    pub(crate) fn describe(&self) -> String {
        let whose = if self.daemon.is_some() { "a private" } else { "the machine's" };
        let version = self.version().unwrap_or_default();
        format!("{whose} daemon {}", version.trim())
    }

    /// Starts a daemon that shares nothing with the machine's: own data, socket, pid file and
    /// cgroup, and no bridge, since the containers have no network.
    fn launch(scratch: &Scratch, cgroup: &CgroupParent) -> Result<Self, Trouble> {
        let program = programs::find("dockerd").ok_or_else(|| {
            Trouble::new("no docker daemon answers and dockerd is not installed")
        })?;
        let dir = scratch.dir("dockerd")?;
        let at = |name: &str| dir.join(name).display().to_string();
        let unstartable = || "could not start `dockerd`".to_owned();
        let log = File::create(dir.join("log")).or_trouble(unstartable)?;
        let host = format!("unix://{}", at("socket"));
        let gvisor = gvisor(&dir)?;
        // It must not outlive us even if we are killed; setpriv(1) becomes the daemon.
        let daemon = programs::command("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(program)
            .args(["--host", &host, "--data-root", &at("data"), "--exec-root", &at("exec")])
            .args(["--pidfile", &at("pid"), "--cgroup-parent", &cgroup.path()])
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false"])
            .arg("--ip-forward=false")
            .args(gvisor.iter().flat_map(|it| ["--add-runtime", it]))
            .stdin(Stdio::null())
            .stdout(log.try_clone().or_trouble(unstartable)?)
            .stderr(log)
            .spawn()
            .or_trouble(unstartable)?;
        let mut dockerd = Self { host: Some(host), daemon: Some(daemon) };
        dockerd.wait_until_it_answers(&dir.join("log"))?;
        Ok(dockerd)
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            let ended = match &mut self.daemon {
                Some(daemon) => daemon.try_wait().is_ok_and(|status| status.is_some()),
                None => true,
            };
            if ended || Instant::now() >= deadline {
                let said = programs::last_line(&fs::read_to_string(log).unwrap_or_default());
                return Err(Trouble::new(format!("dockerd does not answer: {said}")));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        self.version().is_ok()
    }

    fn version(&self) -> Result<String, Trouble> {
        programs::output(self.client().args(["version", "--format", "{{.Server.Version}}"]))
    }

    fn import(&self, scratch: &Scratch, rootfs: &Path) -> Result<(), Trouble> {
        let tar = scratch.path().join("rootfs.tar");
        programs::output(
            programs::command("tar").arg("-cf").arg(&tar).arg("-C").arg(rootfs).arg("."),
        )?;
        programs::output(self.client().arg("import").arg(&tar).arg(IMAGE))?;
        Ok(())
    }

    fn client(&self) -> Command {
        let mut docker = programs::command("docker");
        docker.envs(self.env());
        docker
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        drop(programs::output(self.client().args(["image", "rm", "--force", IMAGE])));
        if let Some(daemon) = &mut self.daemon {
            stop(daemon);
        }
    }
}

/// gVisor as a runtime without network, if it is installed; a daemon takes arguments for it only
/// from a file of its own.
fn gvisor(dir: &Path) -> Result<Option<String>, Trouble> {
    let Some(program) = programs::find("runsc") else { return Ok(None) };
    let script = dir.join("runsc");
    let text = format!("#!/bin/sh\nexec {} --network=none \"$@\"\n", program.display());
    fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, Permissions::from_mode(0o755)))
        .or_trouble(|| format!("could not write `{}`", script.display()))?;
    Ok(Some(format!("runsc={}", script.display())))
}

/// Asks the daemon to end, so that it takes its containerd with it and unmounts its data.
fn stop(daemon: &mut Child) {
    let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
    let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    let deadline = Instant::now() + PATIENCE;
    while asked && Instant::now() < deadline {
        match daemon.try_wait() {
            Ok(None) => thread::sleep(PAUSE),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    drop(daemon.kill());
    drop(daemon.wait());
}
