//! The suite on container daemons.

use std::{path::Path, sync::Arc};

use bulkhead_backends::Backend;
use libtest_mimic::{Failed, Trial};

use crate::{
    claims::{Claims, required},
    dockerd::Dockerd,
    drills,
    makers::{self, Maker},
};

/// The runtimes that are tried, by the names of their trials.
const RUNTIMES: [(&str, &str); 2] = [("docker-runc", "runc"), ("docker-runsc", "runsc")];

/// The daemons that are tried, and the backends on them. Dropping it stops what was started.
pub(crate) struct Containers {
    _dockerd: Option<Arc<Dockerd>>,
    tried: Vec<Tried>,
    drills: Vec<Trial>,
}

/// A backend that is tried, or why not.
struct Tried {
    name: &'static str,
    backend: Result<&'static dyn Backend, String>,
}

impl Containers {
    /// Starts the daemons of those that are `wanted`.
    pub(crate) fn start(kept: &Path, wanted: impl Fn(&str) -> bool) -> Self {
        let asked: Vec<_> = RUNTIMES.into_iter().filter(|(name, _)| wanted(name)).collect();
        if asked.is_empty() {
            return Self { _dockerd: None, tried: Vec::new(), drills: Vec::new() };
        }
        let dockerd = Dockerd::ready();
        let backend = |runtime: &str| match &dockerd {
            Ok(_) if runtime == "runsc" && !required("runsc") => {
                Err("gVisor is tried with BULKHEAD_REQUIRE=runsc".to_owned())
            }
            Ok(dockerd) => on(dockerd, runtime, kept)
                .map_err(|it| it.message().unwrap_or_default().to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        let tried =
            asked.iter().map(|(name, runtime)| Tried { name, backend: backend(runtime) });
        let tried = tried.collect();
        let dockerd = dockerd.ok().map(Arc::new);
        let drills = dockerd.as_ref().map(drills::trials).unwrap_or_default();
        Self { _dockerd: dockerd, tried, drills }
    }

    /// Every attack on everything that they claim, and what goes wrong around them.
    pub(crate) fn trials(&mut self) -> Vec<Trial> {
        let drills = std::mem::take(&mut self.drills);
        self.tried.iter().flat_map(Tried::trials).chain(drills).collect()
    }
}

fn on(dockerd: &Dockerd, runtime: &str, kept: &Path) -> Result<&'static dyn Backend, Failed> {
    let address = dockerd.address().to_owned();
    let maker = Maker::Daemon { address: address.clone(), runtime: runtime.to_owned() };
    let backend = maker.make(&kept.join(runtime))?;
    makers::note(&*backend, &address);
    Ok(Box::leak(backend))
}

/// What cannot be tried there, and why: it is listed as ignored, with the reason.
const EXCUSED: &[(&str, &str, &str)] = &[(
    "docker-",
    "a_root_with_a_link_for_a_directory_is_refused",
    "a container's root is an image",
)];

fn excused(name: &str, trial: Trial) -> Trial {
    let excuse = EXCUSED
        .iter()
        .find(|(on, attack, _)| name.starts_with(on) && trial.name().ends_with(attack));
    match excuse {
        Some((_, _, why)) => trial.with_kind(*why).with_ignored_flag(true),
        None => trial,
    }
}

impl Tried {
    fn trials(&self) -> Vec<Trial> {
        let name = self.name;
        match &self.backend {
            Ok(backend) => {
                let backend = *backend;
                let trials = crate::trials_of(name, &Claims::of(backend), |_, attack| {
                    Box::new(move || attack.must_fail(backend))
                });
                trials.into_iter().map(|it| excused(name, it)).collect()
            }
            Err(reason) => {
                let why = reason.clone();
                let missing = Trial::test(format!("{name}::is_available"), || Err(why.into()));
                let needed = if name == "docker-runsc" { "runsc" } else { "docker" };
                vec![missing.with_kind(reason.clone()).with_ignored_flag(!required(needed))]
            }
        }
    }
}
