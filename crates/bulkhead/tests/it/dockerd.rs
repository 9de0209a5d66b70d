//! A Docker daemon of the test's own.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    daemon::cgroup,
    host::{Host, Ran, within},
};

const PATIENCE: Duration = Duration::from_mins(1);

/// A daemon that shares nothing with the machine's: own data, socket and cgroup, and no network.
/// `Drop` stops it.
pub(crate) struct Dockerd {
    dir: tempfile::TempDir,
    daemon: Child,
    cgroup: String,
}

impl Dockerd {
    #[expect(clippy::disallowed_methods, reason = "the daemon is what is tested against")]
    pub(crate) fn start() -> Self {
        // Sockets have short names.
        let dir = tempfile::Builder::new().prefix("bh").tempdir_in("/tmp").unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let log = File::create(dir.path().join("log")).unwrap();
        let cgroup = format!("tests-of-images-{}", std::process::id());
        let daemon = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--", "dockerd"])
            .args(["--host", &format!("unix://{}", at("sock")), "--data-root", &at("data")])
            .args(["--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args([
                "--cgroup-parent",
                &format!("/{cgroup}"),
                "--bridge",
                "none",
                "--ip-forward=false",
            ])
            .args(["--iptables=false", "--ip6tables=false"])
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("dockerd is installed by test.sh");
        let mut dockerd = Self { dir, daemon, cgroup };
        within(PATIENCE, || {
            let log = fs::read_to_string(dockerd.dir.path().join("log")).unwrap();
            assert!(dockerd.daemon.try_wait().unwrap().is_none(), "dockerd ended:\n{log}");
            dockerd.docker(["version"]).code == Some(0)
        });
        dockerd
    }

    /// What a client needs in `DOCKER_HOST`.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.dir.path().join("sock").display())
    }

    /// A directory next to the daemon's own.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// What Docker's own client says.
    #[expect(clippy::disallowed_methods, reason = "a second opinion on the daemon")]
    pub(crate) fn docker<const N: usize>(&self, args: [&str; N]) -> Ran {
        let output = Command::new("docker")
            .args(args)
            .env("DOCKER_HOST", self.host())
            .stdin(Stdio::null())
            .output()
            .expect("docker's client is installed by test.sh");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// `bulkhead` with these arguments, with this daemon.
    pub(crate) fn bulkhead(&self, host: &Host, args: &[&str]) -> Ran {
        host.ended(host.command(args).env("DOCKER_HOST", self.host()))
    }

    /// The same, which must end well; what it prints.
    pub(crate) fn ok(&self, host: &Host, args: &[&str]) -> String {
        let ran = self.bulkhead(host, args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.shown());
        ran.stdout
    }

    /// Imports the archive `tar` as an image with these names.
    pub(crate) fn import(&self, tar: &str, names: &[String]) {
        let (first, rest) = names.split_first().unwrap();
        let ran = self.docker(["import", tar, first]);
        assert_eq!(ran.code, Some(0), "{}", ran.shown());
        for name in rest {
            assert_eq!(self.docker(["tag", first, name]).code, Some(0));
        }
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        let pid = i32::try_from(self.daemon.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), Signal::TERM).unwrap();
        self.daemon.wait().unwrap();
        cgroup::forget(&self.cgroup);
    }
}

/// The images that a Dockerfile starts from.
pub(crate) fn bases(dockerfile: &str) -> Vec<String> {
    let lines = dockerfile.lines().filter_map(|it| it.strip_prefix("FROM "));
    let mut found: Vec<String> =
        lines.filter_map(|it| it.split(' ').next().map(str::to_owned)).collect();
    found.retain(|it| it.contains(':'));
    found.sort();
    found.dedup();
    found
}
