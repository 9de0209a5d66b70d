//! A Docker daemon to measure against: the machine's own if one answers, else a private one.

use std::path::Path;
use std::process::Command;

use bulkhead_testbed::Setup;

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::Trouble;

/// The image that the bench imports.
pub(crate) const IMAGE: &str = "bulkhead-bench:local";

/// A daemon that answers and has the image. `Drop` removes the image, and stops the daemon if
/// it is ours.
pub(crate) struct Dockerd {
    /// Nothing for the machine's own.
    private: Option<bulkhead_testbed::Dockerd>,
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
        let own = Self { private: None };
        if own.version().is_err() {
            return Self::private(scratch, bundle, cgroup);
        }
        own.import(scratch, &bundle.rootfs)?;
        Ok(own)
    }

    /// A daemon of our own with the image, whatever else answers.
    pub(crate) fn private(
        scratch: &Scratch,
        bundle: &Bundle,
        cgroup: &CgroupParent,
    ) -> Result<Self, Trouble> {
        let setup = Setup {
            cgroup: cgroup.path().trim_start_matches('/').to_owned(),
            // As people run it: on whatever platform it finds best.
            runsc: &["--network=none"],
            more: Vec::new(),
        };
        let started = bulkhead_testbed::Dockerd::start(setup).map_err(Trouble::new)?;
        let dockerd = Self { private: Some(started) };
        dockerd.import(scratch, &bundle.rootfs)?;
        Ok(dockerd)
    }

    /// What a client needs in its environment to find it.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let address = self.private.as_ref().map(bulkhead_testbed::Dockerd::address);
        address.iter().map(|it| ("DOCKER_HOST".to_owned(), (*it).to_owned())).collect()
    }

    /// Which daemon answers; the client names only itself.
    pub(crate) fn describe(&self) -> String {
        let whose = if self.private.is_some() { "a private" } else { "the machine's" };
        let version = self.version().unwrap_or_default();
        format!("{whose} daemon {}", version.trim())
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
        // The private one takes its images along.
        if self.private.is_none() {
            drop(programs::output(self.client().args(["image", "rm", "--force", IMAGE])));
        }
    }
}
