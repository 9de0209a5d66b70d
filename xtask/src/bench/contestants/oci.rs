//! The contestants that run a container from the common bundle or image.

use std::path::Path;

use crate::bench::contestants::{Attempt, Field, on_host, words};
use crate::bench::dockerd::IMAGE;
use crate::bench::machine;
use crate::bench::spawner::Stage;

impl Field {
    /// Debian's crun refuses hosts with both cgroup versions, so it is tried again where the v2
    /// tree is not mounted.
    pub(super) fn crun(&self) -> Result<Vec<Attempt>, String> {
        let bundle = &self.bundle.as_ref().map_err(Clone::clone)?.dir;
        let plain = on_host(self.call("crun", &self.run_bundle("crun", bundle))?);
        let Some(unified) = machine::unified_beside_v1() else { return Ok(vec![plain]) };
        let second = Attempt {
            stage: Stage::Without { unified },
            invocation: plain.invocation.clone(),
            note: "in a mount namespace without the cgroup v2 tree".to_owned(),
        };
        Ok(vec![plain, second])
    }

    pub(super) fn runc(&self) -> Result<Vec<Attempt>, String> {
        let bundle = &self.bundle.as_ref().map_err(Clone::clone)?.dir;
        Ok(vec![on_host(self.call("runc", &self.run_bundle("runc", bundle))?)])
    }

    /// The default platform first; ptrace is what works everywhere.
    pub(super) fn runsc(&self) -> Result<Vec<Attempt>, String> {
        let bundle = &self.bundle.as_ref().map_err(Clone::clone)?.dir;
        let attempt = |platform: &str, note: &str| -> Result<Attempt, String> {
            let mut args = words(&format!("--network none {platform}"));
            args.extend(self.run_bundle("runsc", bundle));
            let mut attempt = on_host(self.call("runsc", &args)?);
            note.clone_into(&mut attempt.note);
            Ok(attempt)
        };
        Ok(vec![attempt("", "")?, attempt("--platform ptrace", "platform ptrace")?])
    }

    /// Podman's defaults raise limits, which needs a capability that containers and small
    /// machines often lack; and its default runtime may be the crun that refuses the host.
    pub(super) fn podman(&self) -> Result<Vec<Attempt>, String> {
        let rootfs = self.bundle.as_ref().map_err(Clone::clone)?.rootfs.display().to_string();
        let attempt = |global: &str, run: &str, note: &str| -> Result<Attempt, String> {
            let stores = self.scratch.path().join("podman").display().to_string();
            let mut args = words(&format!(
                "--root {stores}/root --runroot {stores}/run --tmpdir {stores}/tmp \
                 --cgroup-manager cgroupfs {global} run --rm --network none"
            ));
            args.extend(words(&format!("--cgroup-parent {} {run}", self.cgroup.path())));
            args.extend(["--rootfs".to_owned(), rootfs.clone(), "/bin/true".to_owned()]);
            let mut attempt = on_host(self.call("podman", &args)?);
            note.clone_into(&mut attempt.note);
            Ok(attempt)
        };
        let lowered = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024";
        Ok(vec![
            attempt("", "", "")?,
            attempt("", lowered, "with --ulimit")?,
            attempt("--runtime runc", lowered, "with --ulimit and --runtime runc")?,
        ])
    }

    pub(super) fn docker(&self) -> Result<Vec<Attempt>, String> {
        let daemon = self.docker.as_ref().map_err(Clone::clone)?;
        let args = words(&format!("run --rm --network none {IMAGE} /bin/true"));
        let mut attempt = on_host(self.call("docker", &args)?);
        attempt.invocation.env.extend(daemon.env());
        attempt.note = daemon.describe();
        Ok(vec![attempt])
    }

    /// `run` of an OCI runtime, which all of them spell alike.
    fn run_bundle(&self, runtime: &str, bundle: &Path) -> Vec<String> {
        let state = self.scratch.path().join(format!("{runtime}-state"));
        let bundle = bundle.display();
        words(&format!("--root {} run --bundle {bundle} {runtime}-bench", state.display()))
    }
}
