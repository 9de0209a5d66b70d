//! The suite on container daemons.

use std::{path::Path, sync::Arc};

use bulkhead_backends::Backend;
use bulkhead_testbed::{Dockerd, Setup};
use libtest_mimic::{Failed, Trial};

use crate::{
    claims::{Claims, required},
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
        let dockerd = Dockerd::ready(Setup::new("tests-of-dockerd"));
        let backend = |runtime: &str| match &dockerd {
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
const EXCUSED: &[(&str, &[&str], &str)] = &[
    (
        "docker-",
        &["a_root_with_a_link_for_a_directory_is_refused"],
        "a container's root is an image",
    ),
    (
        "docker-runsc",
        &["reads_nothing_about_the_kernel", "sees_no_device_of_the_host"],
        "what is seen there is gVisor's own, not the host's",
    ),
    (
        "docker-runsc",
        &["reads_nothing_of_init", "controls_no_other_process"],
        "gVisor lets programs of one sandbox look at each other",
    ),
    (
        "docker-runsc",
        &[
            "a_daemon_ends_with_its_sandbox",
            "who_ignores_signals_ends_too",
            "who_is_stopped_ends_too",
            "who_forks_on_and_on_ends_too",
            "many_end_within_a_second",
            "ends_when_nobody_holds_the_sandbox",
            "ends_when_its_maker_is_killed",
        ],
        "gVisor keeps file locks to itself, so the host cannot see by them who lives",
    ),
    (
        "docker-runsc",
        &["is_not_root_on_the_host", "every_process_is_not_root"],
        "programs in gVisor are no processes of the host",
    ),
    ("docker-runsc", &["takes_no_more_in_files_in_memory"], "gVisor reserves no shared memory"),
    (
        "docker-runsc",
        &["tells_the_gateway_what_it_wanted"],
        "nobody enters gVisor's network: names lead to the gateway there, addresses nowhere",
    ),
    (
        "docker-runsc",
        &["makes_no_packets_of_its_own"],
        "gVisor takes options of sockets that it does not have, and does nothing",
    ),
    ("docker-runsc", &["holds_no_capability"], "gVisor does not list all sets of capabilities"),
];

fn excused(name: &str, trial: Trial) -> Trial {
    let excuse = EXCUSED.iter().find(|(on, attacks, _)| {
        name.starts_with(on) && attacks.iter().any(|it| trial.name().ends_with(it))
    });
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
