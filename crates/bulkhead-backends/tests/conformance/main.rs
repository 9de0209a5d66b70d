//! One suite, every backend: whatever a backend claims to uphold is attacked here, from inside.
//!
//! The list of trials is the capability matrix: `cargo nextest list --test conformance`. What a
//! backend does not claim is listed as ignored, and a claim without a trial fails. Backend `none`
//! has no walls, so every attack must succeed there (`…::bites`): that tests the tests.
//!
//! Started as root, the suite tries the native backend as root and, in children of another user,
//! as an ordinary user; started by an ordinary user, only as that one. Docker and
//! Podman are tried on daemons of the suite's own, with runc and with gVisor, and on daemons of an
//! ordinary user.

mod attack;
mod claims;
mod containers;
mod drills;
mod errand;
mod host;
mod makers;
mod ordinary_user;
mod owners;
mod room;

mod cpu_bounded;
mod cpu_time_bounded;
mod disk_bounded;
mod egress_only_through_proxy;
mod host_files_hidden;
mod host_kernel_shielded;
mod host_triggers_protected;
mod memory_bounded;
mod no_network;
mod no_new_privileges;
mod nothing_survives;
mod open_files_bounded;
mod processes_bounded;
mod syscalls_filtered;
mod unprivileged_on_host;
mod workspace_only_writable;

use std::process::ExitCode;

use bulkhead_backends::{Backend, Unwalled};
use bulkhead_spec::Guarantee;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    attack::{Attack, OnNone, Verdict},
    claims::{Claims, required},
    containers::Containers,
    errand::Errand,
    makers::Maker,
};

/// What the names of trials begin with.
const BACKENDS: [&str; 4] = ["native", "docker", "podman", "none"];

/// The attacks on a guarantee. Those without any can be claimed by nobody.
fn attacks_on(guarantee: Guarantee) -> &'static [Attack] {
    match guarantee {
        Guarantee::HostFilesHidden => host_files_hidden::ATTACKS,
        Guarantee::WorkspaceOnlyWritable => workspace_only_writable::ATTACKS,
        Guarantee::HostTriggersProtected => host_triggers_protected::ATTACKS,
        Guarantee::NoNetwork => no_network::ATTACKS,
        Guarantee::MemoryBounded => memory_bounded::ATTACKS,
        Guarantee::CpuBounded => cpu_bounded::ATTACKS,
        Guarantee::CpuTimeBounded => cpu_time_bounded::ATTACKS,
        Guarantee::ProcessesBounded => processes_bounded::ATTACKS,
        Guarantee::OpenFilesBounded => open_files_bounded::ATTACKS,
        Guarantee::DiskBounded => disk_bounded::ATTACKS,
        Guarantee::NothingSurvives => nothing_survives::ATTACKS,
        Guarantee::NoNewPrivileges => no_new_privileges::ATTACKS,
        Guarantee::SyscallsFiltered => syscalls_filtered::ATTACKS,
        Guarantee::UnprivilegedOnHost => unprivileged_on_host::ATTACKS,
        Guarantee::EgressOnlyThroughProxy => egress_only_through_proxy::ATTACKS,
        // A kernel of one's own is at least a kernel that is not the host's.
        Guarantee::HostKernelShielded | Guarantee::OwnKernel => host_kernel_shielded::ATTACKS,
        Guarantee::WorkspaceDiskBounded | Guarantee::OutputBounded => &[],
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(failed) => {
            host::say(failed.message().unwrap_or("could not begin"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(errand) = Errand::parse(&words) {
        return errand.run();
    }
    let arguments = Arguments::from_args();
    // Who asks for one trial by name, as nextest does for each, need not wait for the others.
    let wanted = |name: &str| match &arguments.filter {
        Some(filter) if arguments.exact => filter.starts_with(name),
        // Nor need those who name another backend.
        Some(filter) => {
            let other = BACKENDS.iter().any(|it| filter.starts_with(it));
            filter.starts_with(name) || name.starts_with(filter.as_str()) || !other
        }
        None => true,
    };
    let kept = tempfile::tempdir()?;
    let native: &'static dyn Backend = Box::leak(Maker::Native.make(kept.path())?);
    let mut trials = Vec::new();
    if host::is_root() {
        trials.extend(trials_of("native-root", &Claims::of(native), |_, attack| {
            Box::new(move || attack.must_fail(native))
        }));
        if wanted("native-user") {
            let claims = ordinary_user::claims(&Maker::Native)?;
            trials.extend(trials_of("native-user", &claims, |on, attack| {
                Box::new(move || ordinary_user::must_fail(&Maker::Native, on, attack))
            }));
        }
    } else {
        trials.extend(trials_of("native-user", &Claims::of(native), |_, attack| {
            Box::new(move || attack.must_fail(native))
        }));
    }
    let mut containers = Containers::start(&kept.path().join("containers"), wanted);
    trials.extend(containers.trials());
    trials.extend(bites());
    let concluded = libtest_mimic::run(&arguments, trials);
    drop(containers);
    Ok(concluded.exit_code())
}

type Test = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

/// Every attack on everything that `claims` claims, and what it does not claim as ignored.
fn trials_of(
    name: &str,
    claims: &Claims,
    test: impl Fn(Guarantee, &'static Attack) -> Test,
) -> Vec<Trial> {
    let missing = claims.is_empty();
    let available = Trial::test(format!("{name}::is_available"), move || {
        if missing { Err("this host allows no native sandbox".into()) } else { Ok(()) }
    });
    let mut trials = vec![available.with_ignored_flag(missing && !required("native"))];
    for guarantee in Guarantee::ALL {
        let attacks = attacks_on(guarantee);
        let claimed = claims.contains(guarantee);
        if attacks.is_empty() {
            let untried = move || Err(format!("{guarantee} is claimed and never tried").into());
            let trial = Trial::test(format!("{name}::{guarantee}"), untried);
            trials.push(trial.with_ignored_flag(!claimed));
        }
        for attack in attacks {
            let name = format!("{name}::{guarantee}::{}", attack.name);
            let trial = Trial::test(name, test(guarantee, attack));
            trials.push(trial.with_ignored_flag(!claimed));
        }
    }
    trials
}

/// The same attacks where there are no walls.
fn bites() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guarantee in Guarantee::ALL {
        for attack in attacks_on(guarantee) {
            let name = format!("none::{guarantee}::{}::bites", attack.name);
            let trial = Trial::test(name, || attack.must_succeed(&Unwalled));
            let tried = match attack.on_none {
                OnNone::Bites => true,
                OnNone::BitesAsRoot => host::is_root(),
                OnNone::CannotBeBuilt => false,
            };
            trials.push(trial.with_ignored_flag(!tried));
        }
    }
    trials
}

impl Attack {
    /// For backends with walls.
    fn must_fail(&self, backend: &dyn Backend) -> Result<(), Failed> {
        match (self.run)(backend)? {
            Verdict::Held => Ok(()),
            Verdict::Broken(how) => Err(format!("the wall did not hold: {how}").into()),
        }
    }

    /// For the backend without.
    fn must_succeed(&self, backend: &dyn Backend) -> Result<(), Failed> {
        match (self.run)(backend)? {
            Verdict::Broken(_) => Ok(()),
            Verdict::Held => Err("the attack fails even where there is no wall".into()),
        }
    }
}
