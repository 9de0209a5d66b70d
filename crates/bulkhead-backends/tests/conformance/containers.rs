//! The suite on container daemons.

use std::{path::Path, sync::Arc};

use bulkhead_backends::Backend;
use bulkhead_testbed::{Dockerd, Podman, Reason, Rootless, Setup, Whose};
use libtest_mimic::{Failed, Trial};

use crate::{
    claims::{Claims, required},
    drills,
    makers::{self, Maker},
    ordinary_user, owners,
};

/// One row of the suite: a daemon, and what it starts containers with.
struct Row {
    /// What its trials are called.
    name: &'static str,
    on: On,
    runtime: &'static str,
    /// What `BULKHEAD_REQUIRE` calls it.
    needed: &'static str,
}

/// The daemon of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Docker,
    /// Docker's daemon of an ordinary user, who is also the one that asks.
    UsersDocker,
    Podman,
    /// Podman's service of an ordinary user, who is also the one that asks.
    UsersPodman,
}

const ROWS: [Row; 7] = [
    Row { name: "docker-runc", on: On::Docker, runtime: "runc", needed: "docker" },
    Row { name: "docker-runsc", on: On::Docker, runtime: "runsc", needed: "runsc" },
    Row { name: "docker-user", on: On::UsersDocker, runtime: "runc", needed: "docker-user" },
    Row { name: "podman-runc", on: On::Podman, runtime: "runc", needed: "podman" },
    Row { name: "podman-crun", on: On::Podman, runtime: "crun", needed: "podman-crun" },
    Row { name: "podman-runsc", on: On::Podman, runtime: "runsc", needed: "podman-runsc" },
    Row { name: "podman-user", on: On::UsersPodman, runtime: "runc", needed: "podman-user" },
];

/// The daemons that are tried, and the backends on them. Dropping it stops what was started.
#[derive(Default)]
pub(crate) struct Containers {
    dockerd: Option<Arc<Dockerd>>,
    rootless: Option<Rootless>,
    podmen: Vec<Podman>,
    trials: Vec<Trial>,
}

impl Containers {
    /// Starts the daemons of those that are `wanted`.
    pub(crate) fn start(kept: &Path, wanted: impl Fn(&str) -> bool) -> Self {
        let asked: Vec<&Row> = ROWS.iter().filter(|it| wanted(it.name)).collect();
        let mut all = Self::default();
        let rows = |on: On| asked.iter().copied().filter(move |it| it.on == on);
        if rows(On::Docker).next().is_some() {
            let dockerd = Dockerd::ready(Setup::new("tests-of-dockerd"));
            let address = dockerd.as_ref().map(Dockerd::address);
            all.trials.extend(rows(On::Docker).flat_map(|it| it.trials(address, kept)));
            if let Ok(dockerd) = dockerd.map(Arc::new) {
                all.trials.extend(drills::trials(&dockerd));
                all.trials.extend(owners::trials(&dockerd));
                all.dockerd = Some(dockerd);
            }
        }
        for row in rows(On::UsersDocker) {
            let daemon = Rootless::ready(ordinary_user::SOMEBODY);
            all.trials.extend(row.trials(daemon.as_ref().map(Rootless::address), kept));
            all.rootless = daemon.ok();
        }
        // A service has one runtime.
        for row in rows(On::Podman).chain(rows(On::UsersPodman)) {
            let whose = match row.on {
                On::UsersPodman => Whose::Users(ordinary_user::SOMEBODY),
                On::Podman | On::Docker | On::UsersDocker => Whose::Roots,
            };
            let podman = Podman::ready(whose, row.runtime);
            let address = podman.as_ref().map(Podman::address);
            all.trials.extend(row.trials(address, kept));
            all.podmen.extend(podman);
        }
        all
    }

    /// Every attack on everything that they claim, and what goes wrong around them.
    pub(crate) fn trials(&mut self) -> Vec<Trial> {
        std::mem::take(&mut self.trials)
    }
}

/// What cannot be tried there, and why: it is listed as ignored, with the reason.
const EXCUSED: &[(&str, &[&str], &str)] = &[
    ("", &["a_root_with_a_link_for_a_directory_is_refused"], "a container's root is an image"),
    (
        "-user",
        &["changes_to_a_private_share_stay_inside", "copies_no_more_than_allowed"],
        "only root can have a container change a share privately; others are refused",
    ),
    (
        "-runsc",
        &["reads_nothing_about_the_kernel", "sees_no_device_of_the_host"],
        "what is seen there is gVisor's own, not the host's",
    ),
    (
        "-runsc",
        &["reads_nothing_of_init", "controls_no_other_process"],
        "gVisor lets programs of one sandbox look at each other",
    ),
    (
        "-runsc",
        &["who_is_stopped_ends_too"],
        "gVisor keeps file locks to itself, and who is stopped gives no other sign of life",
    ),
    ("-runsc", &["takes_no_more_in_files_in_memory"], "gVisor reserves no shared memory"),
    (
        "-runsc",
        &["tells_the_gateway_what_it_wanted"],
        "nobody enters gVisor's network: names lead to the gateway there, addresses nowhere",
    ),
    (
        "-user",
        &["tells_the_gateway_what_it_wanted"],
        "nobody enters a user's network: names lead to the gateway there, addresses nowhere",
    ),
    (
        "-runsc",
        &["makes_no_packets_of_its_own"],
        "gVisor takes options of sockets that it does not have, and does nothing",
    ),
];

fn excused(name: &str, trial: Trial) -> Trial {
    let excuse = EXCUSED.iter().find(|(on, attacks, _)| {
        name.contains(on) && attacks.iter().any(|it| trial.name().ends_with(it))
    });
    match excuse {
        Some((_, _, why)) => trial.with_kind(*why).with_ignored_flag(true),
        None => trial,
    }
}

impl Row {
    /// Its trials, or one that says why there are none.
    fn trials(&self, address: Result<&str, &Reason>, kept: &Path) -> Vec<Trial> {
        let maker = |address: &str| Maker::Daemon {
            address: address.to_owned(),
            runtime: self.runtime.to_owned(),
        };
        let trials = match (address, self.on) {
            (Err(reason), _) => Err(reason.clone()),
            (Ok(address), On::UsersDocker | On::UsersPodman) => self.as_user(&maker(address)),
            (Ok(address), On::Docker | On::Podman) => self.as_root(&maker(address), kept),
        };
        trials.unwrap_or_else(|reason| {
            let why = reason.clone();
            let name = format!("{}::is_available", self.name);
            let missing = Trial::test(name, || Err(why.into()));
            vec![missing.with_kind(reason).with_ignored_flag(!required(self.needed))]
        })
    }

    fn as_root(&self, maker: &Maker, kept: &Path) -> Result<Vec<Trial>, Reason> {
        let backend = maker.make(&kept.join(self.name)).map_err(|it| text(&it))?;
        makers::note(&*backend, maker);
        let backend: &'static dyn Backend = Box::leak(backend);
        let trials = crate::trials_of(self.name, &Claims::of(backend), |_, attack| {
            Box::new(move || attack.must_fail(backend))
        });
        Ok(trials.into_iter().map(|it| excused(self.name, it)).collect())
    }

    fn as_user(&self, maker: &Maker) -> Result<Vec<Trial>, Reason> {
        let claims = ordinary_user::claims(maker).map_err(|it| text(&it))?;
        let trials = crate::trials_of(self.name, &claims, |on, attack| {
            let maker = maker.clone();
            Box::new(move || ordinary_user::must_fail(&maker, on, attack))
        });
        let owner = maker.clone();
        let owns =
            Trial::test(format!("{}::owners::of_an_ordinary_user", self.name), move || {
                ordinary_user::owns(&owner)
            });
        Ok(trials.into_iter().map(|it| excused(self.name, it)).chain([owns]).collect())
    }
}

fn text(failed: &Failed) -> Reason {
    failed.message().unwrap_or_default().to_owned()
}
