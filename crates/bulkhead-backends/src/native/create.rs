//! Builds a sandbox from a plan.

use std::{io, sync::PoisonError};

use bulkhead_linux::{
    cgroup::{Cgroup, Feature, Limits},
    crash,
    midwife::Network,
};
use bulkhead_policy::Plan;

use super::{
    Native,
    birth::Finished,
    copier::Source,
    embryo::Embryo,
    frame::Frame,
    lower::{self, Unfinished},
    sandbox::{Held, NativeSandbox},
    shape::{Parts, Settings, Shape},
    survey::{House, survey},
};
use crate::{
    BackendError,
    guest::Link,
    identity,
    workspace::stand_in::{Material, StandIns},
};

/// Builds the sandbox; the first program waits until its walls stand.
///
/// This takes a millisecond of system calls and does not yield in between. Parent and child
/// work side by side: while the child makes what every sandbox has, the parent looks at what is
/// special about this one.
pub(super) fn create(
    native: &Native,
    id: &str,
    plan: &Plan,
) -> Result<NativeSandbox, BackendError> {
    let embryo = native.embryo(id, plan)?;
    let Embryo { birth, control, cgroup, owner, id: _, shape: _ } = embryo;
    let image = native.hold(plan)?;
    let mut survey = survey(plan, image.as_ref(), native.found(plan.disk())?)?;
    let (stand_ins, needless) =
        StandIns::put(&native.state, id, &survey.protections, Material::Socket)
            .map_err(built("keep protected names from being made"))?;
    survey.protections.retain(|it| !needless.contains(&it.path));
    crash::point();
    let concluded = birth.conclude(plan, &survey)?;
    // While the child does the last of its list.
    let cgroup = native.limited(cgroup, id, plan)?;
    crash::point();
    let finished = concluded.finish(plan, cgroup.as_ref())?;
    let Finished { newborn, doors, orders, spent } = finished;

    crash::point();
    let walls = lower::walls(plan, &survey, &owner.identity);
    let link = Link::over_socket(control).map_err(built("watch the stream to the guest"))?;
    let kept = survey.disk.kept.clone();
    let disk = Source::new(orders, lower::parts(plan, &survey), kept, owner.identity);
    let held = Held { cgroup, stand_ins, owner, doors, image, disk, spent };
    let sandbox = NativeSandbox::new(newborn, link, held, plan.limits())
        .map_err(built("watch the sandbox"))?;
    sandbox.raise(walls);
    Ok(sandbox)
}

pub(super) fn built(action: &'static str) -> impl Fn(io::Error) -> BackendError {
    move |source| BackendError::Build { action: action.to_owned(), source, hint: None }
}

impl Native {
    /// The second list of a sandbox of `shape`, and the frame that it shows, if one is laid for it.
    pub(super) fn second(&self, shape: Shape, house: &House) -> (Unfinished, Option<Frame>) {
        if (shape.root, shape.settings) == (Parts::Host, Settings::Shown) {
            let (tree, made) = lower::second_framed(shape, house);
            let frame = Frame::of(&self.state, made);
            if frame.is_laid() {
                return (tree, Some(frame));
            }
            *self.unlaid.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
        }
        (lower::second(shape, house), None)
    }

    /// The sandbox that was begun ahead, if it is the one that is wanted, or else a new one.
    fn embryo(&self, id: &str, plan: &Plan) -> Result<Embryo, BackendError> {
        let shape = Shape::of(plan);
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One of another shape is gone before there is a new one of the same name.
        match ahead.filter(|it| it.id == id && it.shape == shape) {
            Some(embryo) => Ok(embryo),
            None => Embryo::conceive(self, id, shape, self.bearer(plan)?),
        }
    }

    /// The cgroup that was begun, with the limits of `plan`.
    fn limited(
        &self,
        begun: Option<Cgroup>,
        id: &str,
        plan: &Plan,
    ) -> Result<Option<Cgroup>, BackendError> {
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
        let made = match begun {
            Some(begun) => begun.complete(&self.cgroups, &wanted),
            None if wanted == Limits::default() => return Ok(None),
            None => self.cgroups.create(id, &wanted),
        };
        made.map(Some).map_err(|error| built("hold the limits")(io::Error::other(error)))
    }
}

/// What would be done for `plan`, a line each.
pub(super) fn describe(native: &Native, plan: &Plan) -> Result<Vec<String>, BackendError> {
    let identity = identity::expected();
    let shape = Shape::of(plan);
    let image = native.hold(plan)?;
    let (house, disk) = (native.house(shape.root), native.found(plan.disk())?);
    let survey = survey(plan, image.as_ref(), disk)?;
    let network = match shape.network {
        Network::Own => Some("make a network with loopback alone".to_owned()),
        Network::Host => None,
    };
    let mut lines = lower::first(&identity, None);
    let (mut tree, _) = native.second(shape, &house);
    lines.append(&mut tree.lines);
    lines.extend(tree.rest(plan, &house, &survey));
    Ok(network.into_iter().chain(lines.iter().map(ToString::to_string)).collect())
}
