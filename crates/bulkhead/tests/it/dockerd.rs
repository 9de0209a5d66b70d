//! A Docker daemon of the test's own.

use std::path::PathBuf;

use bulkhead_testbed::Setup;

use crate::host::{Host, Ran};

/// A daemon that shares nothing with the machine's: own data, socket and cgroup, and no network.
/// Dropping it stops it.
pub(crate) struct Dockerd(bulkhead_testbed::Dockerd);

impl Dockerd {
    pub(crate) fn start() -> Self {
        Self(bulkhead_testbed::Dockerd::start(Setup::new("tests-of-images")).unwrap())
    }

    /// What a client needs in `DOCKER_HOST`.
    pub(crate) fn host(&self) -> String {
        self.0.address().to_owned()
    }

    /// A directory next to the daemon's own.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.0.scratch(name).unwrap()
    }

    /// What Docker's own client says.
    pub(crate) fn docker<const N: usize>(&self, args: [&str; N]) -> Ran {
        let output = self.0.client().unwrap().args(args).output().unwrap();
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
