//! Builds a sandbox from a plan.

use std::io;

use bulkhead_linux::cgroup::{Cgroup, Feature, Limits};
use bulkhead_policy::Plan;

use super::{
    Native,
    birth::Birth,
    doors, lower,
    sandbox::{Held, NativeSandbox},
    survey::survey,
};
use crate::{
    BackendError,
    guest::{Link, pair},
    identity::{self, Identity, Owner, is_host_root},
    workspace::stand_in::{Material, StandIns},
};

/// Builds the sandbox; the first program waits until its walls stand.
///
/// This takes a millisecond of system calls and does not yield in between. Parent and child
/// work side by side: while the child makes its network, the parent looks at the host.
pub(super) fn create(
    native: &Native,
    id: &str,
    plan: &Plan,
) -> Result<NativeSandbox, BackendError> {
    let owner =
        Owner::take(&native.runtime).map_err(built("take a user id for the sandbox"))?;
    let cgroup = native.cgroup(id, plan)?;
    let (ours, theirs) = pair().map_err(built("open the stream to the guest"))?;
    let birth = Birth::begin(plan, owner.identity, cgroup.as_ref(), theirs)?;

    let mut survey = survey(plan)?;
    let (stand_ins, needless) =
        StandIns::put(&native.state, id, &survey.protections, Material::Socket)
            .map_err(built("keep protected names from being made"))?;
    survey.protections.retain(|it| !needless.contains(&it.path));
    let doors = doors::take(plan, &birth)?;
    let newborn = birth.finish(lower::rest(plan, &survey))?;

    let walls = lower::walls(plan, &survey, &owner.identity);
    let link = Link::over_socket(ours).map_err(built("watch the stream to the guest"))?;
    let held = Held { cgroup, stand_ins, owner, doors };
    let sandbox = NativeSandbox::new(newborn, link, held, plan.limits())
        .map_err(built("watch the sandbox"))?;
    sandbox.raise(walls);
    Ok(sandbox)
}

pub(super) fn built(action: &'static str) -> impl Fn(io::Error) -> BackendError {
    move |source| BackendError::Build { action: action.to_owned(), source, hint: None }
}

impl Native {
    /// The cgroup that holds the limits of `plan`, if any is to be held by one.
    fn cgroup(&self, id: &str, plan: &Plan) -> Result<Option<Cgroup>, BackendError> {
        let limits = plan.limits();
        let wanted = Limits {
            memory: limits.memory.map(|it| it.0),
            cpu_millis: limits.cpus.map(bulkhead_spec::Cpus::millis),
            // One more for the guest, which is none of the program's. An ordinary user's are
            // counted by the user namespace where no cgroup counts them.
            processes: limits
                .pids
                .filter(|_| self.cgroups.holds(Feature::Processes).is_some())
                .map(|it| it.saturating_add(1)),
        };
        let counts = self.cgroups.holds(Feature::CpuTime).is_some();
        if wanted == Limits::default() && !counts {
            return Ok(None);
        }
        let made = self.cgroups.create(id, &wanted);
        made.map(Some).map_err(|error| built("hold the limits")(io::Error::other(error)))
    }
}

/// What would be done for `plan`, a line each.
pub(super) fn describe(plan: &Plan) -> Result<Vec<String>, BackendError> {
    let identity =
        if is_host_root() { Identity::Mapped { outside: 0 } } else { identity::own() };
    let survey = survey(plan)?;
    let lines = lower::first(plan, &identity).into_iter().chain(lower::rest(plan, &survey));
    Ok(lines.map(|line| line.to_string()).collect())
}
