//! Who does the same, and by which command line.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::bench::dockerd::{Dockerd, IMAGE};
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::Trouble;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Job {
    /// `/bin/true`.
    Nothing,
    /// A shell that counts, hashes and writes small files, all by static busybox. It is measured by
    /// the processor time that it and its children say they used: beside other load, a cgroup gets
    /// the share of one process however many it holds, so the clock would measure that load.
    Work,
}

/// By whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// Bulkhead without walls.
    Unwalled,
    /// Bulkhead with the kernel's own parts.
    Native,
    /// `docker run` with the walls and limits that Bulkhead asks for, as far as it has flags.
    Hardened,
    /// Bulkhead on that daemon.
    OnDocker,
    /// The same with gVisor.
    OnGvisor,
}

/// Everybody, in the order of the table.
pub(super) const WAYS: [Way; 5] =
    [Way::Unwalled, Way::Native, Way::Hardened, Way::OnDocker, Way::OnGvisor];

const WORK: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
    busybox dd if=/dev/zero bs=1M count=64 2>/dev/null | busybox sha256sum >/dev/null; \
    i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done; busybox rm -f f*; times";

impl Job {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "start",
            Self::Work => "work, CPU",
        }
    }

    fn argv(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["/bin/busybox", "true"],
            Self::Work => &["/bin/busybox", "sh", "-c", WORK],
        }
    }
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unwalled => "Bulkhead without walls",
            Self::Native => "Bulkhead natively",
            Self::Hardened => "docker run, hardened",
            Self::OnDocker => "Bulkhead on docker",
            Self::OnGvisor => "Bulkhead on docker, runsc",
        }
    }
}

/// The daemon, the image and the directories; dropped from the top.
pub(super) struct Field {
    pub(super) dockerd: Dockerd,
    bulkhead: PathBuf,
    work: PathBuf,
    home: PathBuf,
    _cgroup: CgroupParent,
    _scratch: Scratch,
}

impl Field {
    pub(super) fn prepare(bulkhead: PathBuf) -> Result<Self, Trouble> {
        let scratch = Scratch::new()?;
        let cgroup = CgroupParent::new();
        let bundle = Bundle::make(&scratch, &cgroup.path())?;
        let dockerd = Dockerd::private(&scratch, &bundle, &cgroup)?;
        // What Bulkhead starts from where nobody names an image.
        let mut tag = programs::command("docker");
        tag.args(["tag", IMAGE, "bulkhead/agent:latest"]).envs(dockerd.env());
        programs::output(&mut tag)?;
        let (work, home) = (scratch.dir("work")?, scratch.dir("home")?);
        Ok(Self { dockerd, bulkhead, work, home, _cgroup: cgroup, _scratch: scratch })
    }

    /// Which daemon it is.
    pub(super) fn describe(&self) -> String {
        self.dockerd.describe()
    }

    /// Where Bulkhead keeps its files.
    pub(super) fn home(&self) -> &PathBuf {
        &self.home
    }

    /// A command that does `job` in the given way.
    pub(super) fn command(&self, way: Way, job: Job) -> Command {
        let mut command = match way {
            Way::Unwalled => self.bulkhead(&["--backend", "none"]),
            Way::Native => self.bulkhead(&["--backend", "native"]),
            Way::OnDocker => self.bulkhead(&["--backend", "docker"]),
            Way::OnGvisor => self.bulkhead(&["--backend", "docker", "--runtime", "runsc"]),
            Way::Hardened => self.hardened(&["run", "--rm"]),
        };
        command.args(job.argv()).envs(self.dockerd.env()).current_dir(&self.work);
        let stdout = match job {
            Job::Nothing => Stdio::null(),
            Job::Work => Stdio::piped(),
        };
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        command
    }

    fn bulkhead(&self, flags: &[&str]) -> Command {
        let mut command = programs::command(&self.bulkhead);
        command.args(["run", "--quiet"]).args(flags);
        if !flags.contains(&"none") {
            command.args(["--memory", "512m", "--disk", "64m"]);
        }
        command.arg("--").env("BULKHEAD_HOME", &self.home).env("HOME", &self.home);
        command
    }

    /// Docker with every wall that it has a flag for.
    pub(super) fn hardened(&self, verb: &[&str]) -> Command {
        let mut command = programs::command("docker");
        let work = self.work.display();
        command
            .args(verb)
            .args(["--network", "none", "--read-only", "--cap-drop", "ALL"])
            .args(["--security-opt", "no-new-privileges", "--user", "200000:200000"])
            .args(["--tmpfs", "/tmp:rw,nosuid,nodev,size=64m", "--ipc", "private"])
            .args(["--memory", "512m", "--memory-swap", "512m", "--cpus", "2"])
            .args(["--pids-limit", "64", "--ulimit", "nofile=4096", "--ulimit", "core=0"])
            .args(["--log-driver", "none", "--volume", &format!("{work}:{work}")])
            .args(["--workdir", &work.to_string(), IMAGE])
            .envs(self.dockerd.env());
        command
    }

    /// How long it takes, from its start until its end was seen; of work, what it used.
    pub(super) fn time(&self, way: Way, job: Job) -> Result<Duration, String> {
        let started = Instant::now();
        let ended = self.command(way, job).output().map_err(|error| error.to_string())?;
        let took = started.elapsed();
        if ended.status.success() {
            return match job {
                Job::Nothing => Ok(took),
                Job::Work => used(&String::from_utf8_lossy(&ended.stdout)),
            };
        }
        let said = programs::last_line(&String::from_utf8_lossy(&ended.stderr));
        Err(format!("{}: {said}", ended.status))
    }
}

/// All times of what a shell's `times` says: `0m0.140s 0m0.010s`, twice.
fn used(said: &str) -> Result<Duration, String> {
    let time = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let times: Option<Vec<f64>> = said.split_whitespace().map(time).collect();
    match times {
        Some(times) if times.len() == 4 => Ok(Duration::from_secs_f64(times.iter().sum())),
        Some(_) | None => Err(format!("no times: `{}`", said.trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::used;

    #[test]
    fn the_times_of_a_shell_are_added_up() {
        let said = "0m0.140s 0m0.010s\n1m0.300s 0m0.050s\n";
        assert_eq!(used(said), Ok(Duration::from_millis(60_500)));
        assert!(used("0m0.140s").is_err());
        assert!(used("nothing").is_err());
    }
}
