//! Builds a sandbox from a plan.

use std::{
    ffi::CString,
    io::{self, Write as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use bulkhead_guest::protocol::{ToGuest, ToHost};
use bulkhead_linux::{
    birth::{Embryo, NetworkNamespace, Newborn, map_line},
    cgroup::{Cgroup, Feature, Limits},
    memfd::Unsealed,
    mounts::{self, Attributes},
    steps::Step,
};
use bulkhead_policy::Plan;
use bulkhead_spec::{Network, escape_bytes};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{
    Native,
    control::{Control, pair},
    identity::{INSIDE, Identity, Owner, Translations},
    lower::{Line, lower},
    sandbox::{Held, NativeSandbox},
    stand_in::StandIns,
    survey::{Share, survey},
};
use crate::BackendError;

/// The guest, as the build made it.
static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bulkhead-guest"));

/// Builds the sandbox and waits until its walls stand.
///
/// This takes two milliseconds of system calls and does not yield in between.
pub(super) async fn create(
    native: &Native,
    id: &str,
    plan: &Plan,
) -> Result<NativeSandbox, BackendError> {
    let mut survey = survey(plan)?;
    let owner =
        Owner::take(&native.runtime).map_err(built("take a user id for the sandbox"))?;
    let (stand_ins, needless) = StandIns::put(&native.state, id, &survey.protections)
        .map_err(built("keep protected names from being made"))?;
    survey.protections.retain(|it| !needless.contains(&it.path));
    let blueprint = lower(plan, &survey, &owner.identity);
    let cgroup = native.cgroup(id, plan)?;
    let (ours, theirs) = pair().map_err(built("open the stream to the guest"))?;
    let newborn = bear(blueprint.lines, plan, owner.identity, cgroup.as_ref(), theirs)?;
    let control = Control::new(ours).map_err(built("watch the stream to the guest"))?;
    let held = Held { cgroup, stand_ins, owner };
    let sandbox = NativeSandbox::new(newborn, control, held, plan.limits())
        .map_err(built("watch the sandbox"))?;
    raise(&sandbox, blueprint.walls).await?;
    Ok(sandbox)
}

fn built(action: &'static str) -> impl Fn(io::Error) -> BackendError {
    move |source| BackendError::Build { action: action.to_owned(), source, hint: None }
}

/// Makes the child and does the parent's part while the child does its own.
fn bear(
    lines: Vec<Line>,
    plan: &Plan,
    identity: Identity,
    cgroup: Option<&Cgroup>,
    control: OwnedFd,
) -> Result<Newborn, BackendError> {
    let (wait, go) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|it| built("make a pipe")(it.into()))?;
    let mut trees = Vec::new();
    let mut steps = realize(lines, identity, &wait, &mut trees)?;
    let entry = cgroup.map(Cgroup::entry);
    let tasks = entry.iter().flat_map(|it| it.tasks.iter());
    for (at, file) in tasks.enumerate() {
        steps.insert(1 + at, Step::Tasks { file: file.as_raw_fd() });
    }
    steps.push(Step::Descriptors { control: control.as_raw_fd() });
    let guest = Unsealed::create().map_err(built("make a file in memory"))?;
    let embryo = Embryo {
        steps,
        guest: guest.file().as_raw_fd(),
        network: match plan.network() {
            Network::None => NetworkNamespace::Own,
            Network::Open => NetworkNamespace::Host,
        },
        cgroup: entry.as_ref().and_then(|it| it.v2),
    };
    let newborn = embryo.bear().map_err(|source| BackendError::Build {
        action: "make new namespaces".to_owned(),
        source,
        hint: Some("run `bulkhead doctor` to see what this host lacks".to_owned()),
    })?;
    drop((wait, control));
    let mut go = std::fs::File::from(go);
    if let Identity::Mapped { outside } = identity {
        map(&newborn, outside).map_err(built("map the sandbox's user"))?;
        go.write_all(b".").map_err(built("go on"))?;
    }
    let sealed = guest.seal(GUEST).map_err(built("seal the guest"))?;
    // A child that has failed is not there to listen; why it failed is found out by its silence.
    go.write_all(b".").unwrap_or_default();
    drop(sealed);
    Ok(newborn)
}

fn map(newborn: &Newborn, outside: u32) -> io::Result<()> {
    let pid = newborn.pid().as_raw_nonzero();
    let line = map_line(INSIDE, outside);
    std::fs::write(format!("/proc/{pid}/uid_map"), line.to_bytes())?;
    std::fs::write(format!("/proc/{pid}/gid_map"), line.to_bytes())
}

/// Fills in what only this run knows: pipes and prepared trees.
fn realize(
    lines: Vec<Line>,
    identity: Identity,
    wait: &OwnedFd,
    trees: &mut Vec<OwnedFd>,
) -> Result<Vec<Step>, BackendError> {
    let mut translations = Translations::default();
    let mut steps = Vec::with_capacity(lines.len() + 8);
    for line in lines {
        steps.push(match line {
            Line::Do(step) => step,
            Line::Await => Step::Await { pipe: wait.as_raw_fd() },
            Line::Show { share, attributes, target } => match identity {
                Identity::Own { .. } => Step::Bind {
                    source: path("old", &share.from),
                    expect: Some(share.looked.inode),
                    target,
                    attributes,
                },
                Identity::Mapped { outside } => {
                    let tree = translate(&share, attributes, outside, &mut translations)?;
                    let step = Step::Attach { tree: tree.as_raw_fd(), target };
                    trees.push(tree);
                    step
                }
            },
        });
    }
    Ok(steps)
}

/// Prepares `share` so that its owner appears as the sandbox's user.
fn translate(
    share: &Share,
    attributes: Attributes,
    outside: u32,
    translations: &mut Translations,
) -> Result<OwnedFd, BackendError> {
    let owners = translations
        .of(share.looked.owner, outside)
        .map_err(built("make a namespace that translates owners"))?;
    mounts::translated(&path("", &share.from), share.looked.inode, attributes, owners).map_err(
        |source| BackendError::Build {
            action: format!(
                "translate the owner of `{}`",
                escape_bytes(share.from.as_os_str().as_bytes())
            ),
            source,
            hint: Some(
                "its filesystem may not support it; run bulkhead as the owner of the files \
                 instead of root"
                    .to_owned(),
            ),
        },
    )
}

fn path(base: &str, path: &Path) -> CString {
    CString::new([base.as_bytes(), path.as_os_str().as_bytes()].concat()).unwrap_or_default()
}

/// Has the guest put its walls up, and finds out what went wrong if they do not stand.
async fn raise(
    sandbox: &NativeSandbox,
    walls: bulkhead_linux::walls::Walls,
) -> Result<(), BackendError> {
    // A child that has failed is not there to hear it; the answer below tells.
    sandbox.control().say(&ToGuest::Raise(walls), &[]).await.unwrap_or_default();
    match sandbox.control().hear().await {
        Ok(Some(ToHost::Ready)) => Ok(()),
        Ok(Some(ToHost::Failed { action, errno })) => Err(BackendError::Build {
            action: escape_bytes(action.as_bytes()),
            source: io::Error::from_raw_os_error(errno),
            hint: None,
        }),
        Ok(Some(other)) => Err(BackendError::Guest(format!("{other:?} before it was ready"))),
        Ok(None) => Err(sandbox.stillborn()),
        Err(source) => Err(built("hear from the guest")(source)),
    }
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
    let uid = rustix::process::getuid();
    let identity = if uid.is_root() {
        Identity::Mapped { outside: 0 }
    } else {
        Identity::Own { uid: uid.as_raw(), gid: rustix::process::getgid().as_raw() }
    };
    let lines = lower(plan, &survey(plan)?, &identity).lines;
    Ok(lines.iter().map(ToString::to_string).collect())
}
