//! Builds a sandbox from a plan.

use std::{io, os::fd::AsFd as _, path::Path, time::Duration};

use bollard::models::ContainerCreateBody;
use bulkhead_linux::{cgroup::Watched, crash, mounts};
use bulkhead_policy::Plan;
use rustix::process::{Pid, PidfdFlags, getgid, getuid, pidfd_open};
use tokio::time::timeout;

use super::{
    Container, Kernel, Product,
    find::{Parts, look},
    image,
    journal::Entry,
    lower::{self, Body, Disk, Found, Image, User},
    made::{Held, Laid, Made},
    names::{self, Names},
    plate::{BOOT, Plate},
    sandbox::{Bounded, ContainerSandbox, First, Stands},
    stage::Stage,
    who::{Caller, Way, decide},
};
use crate::{
    BackendError,
    guest::{Link, Unready},
    identity::{Identity, Owner, is_host_root},
    workspace::{
        share::c_path,
        stand_in::{Material, StandIns},
    },
};

/// How long a guest may take from its start until its walls stand.
const BIRTH: Duration = Duration::from_mins(1);

/// What the daemon calls the container of the sandbox `id`.
pub(super) fn name(id: &str) -> String {
    format!("bulkhead-{id}")
}

impl Container {
    /// Builds the sandbox; when this returns, its walls stand.
    pub(super) async fn build(
        &self,
        id: &str,
        plan: &Plan,
    ) -> Result<ContainerSandbox, BackendError> {
        self.check_network(plan)?;
        self.check_disk(plan)?;
        let image = image::find(&self.daemon, plan).await?;
        let names = names::of(self, plan, &image).await?;
        let (made, parts, found) = self.prepare(id, plan, (image, names))?;
        let disk = self.begin_disk(plan, &made, (&parts, &found)).await?;
        let body = lower::lower(plan, &found)?;
        let request = self.request(&body)?;
        crash::point();
        let container = self.daemon.create(made.name(), request).await?;
        crash::point();
        let attached = self.daemon.attach(&container).await?;
        let link = Link::over_stream(attached.output, attached.input);
        if let Some(order) = lower::furnish(plan, &found) {
            link.furnish(order);
        }
        link.raise(lower::walls(plan, &found));
        self.daemon.start(&container).await?;
        crash::point();
        let (ready, first) = tokio::join!(timeout(BIRTH, link.ready()), self.first(&container));
        match ready {
            Ok(Ok(())) => {}
            Ok(Err(Unready::Failed(error) | Unready::Broken(error))) => return Err(error),
            Ok(Err(Unready::Gone)) => return Err(self.stillborn(&container).await),
            Err(_elapsed) => {
                return Err(BackendError::Guest("it did not put its walls up".to_owned()));
            }
        }
        self.tell_boot(&found, first.as_ref())?;
        made.started()?;
        let looked = (&parts, &found, &body);
        let disk = self.enter_disk(plan, (&container, disk), looked).await?;
        let doors = self.doors(plan, &link, first.as_ref()).await?;
        let stands = Stands { link, first, doors, disk };
        let held = Bounded { limits: *plan.limits(), overhead: lower::overhead(found.kernel) };
        Ok(ContainerSandbox::new(made, container, stands, held))
    }

    /// Tells since when the machine runs by what its nameplate says, where we can go there: no
    /// runtime lays anything over `/proc`.
    fn tell_boot(&self, found: &Found, first: Option<&First>) -> Result<(), BackendError> {
        let (Some(plate), Some(first), Kernel::Hosts, true) =
            (&found.plate, first, self.kernel, self.is_staged())
        else {
            return Ok(());
        };
        let (file, target) = (c_path(&plate.join(BOOT)), c"/proc/sys/kernel/random/boot_id");
        mounts::show_in(first.process.as_fd(), &file, target).map_err(|source| {
            BackendError::Build {
                action: "give the sandbox a boot id of its own".to_owned(),
                source,
                hint: None,
            }
        })
    }

    /// What is asked of the daemon, in the words that it understands.
    fn request(&self, body: &Body) -> Result<ContainerCreateBody, BackendError> {
        match self.daemon.facts.product {
            Product::Docker => Ok(body.request()),
            Product::Podman => self.for_podman(body),
        }
    }

    /// Everything on this host: a record of what is to come, then what the container is shown.
    fn prepare(
        &self,
        id: &str,
        plan: &Plan,
        (image, names): (Image, Names),
    ) -> Result<(Made, Parts, Found), BackendError> {
        let built = |action: &str| {
            let action = action.to_owned();
            move |source| BackendError::Build { action: action.clone(), source, hint: None }
        };
        let way = decide(caller(), &self.daemon.facts)?;
        let (user, owner) = self.user(way).map_err(built("take a user id for the sandbox"))?;
        let mut looked = look(plan)?;
        let stage = way.is_staged().then(|| Stage::place(&self.places.runtime, id));
        let entry = Entry {
            id: id.to_owned(),
            daemon: self.daemon.facts.address.to_string(),
            stage: stage.clone(),
            plate: stage.is_none().then(|| Plate::place(&self.places.state, id)),
        };
        let record = self.journal.write(&entry).map_err(built("record the container"))?;
        let laid = StandIns::put(&self.places.state, id, &looked.protections, self.material())
            .map_err(built("keep protected names from being made"))
            .and_then(|(stand_ins, needless)| {
                looked.protections.retain(|it| !needless.contains(&it.path));
                let parts = Parts { id: id.to_owned(), image, user, looked, names };
                let (laid, found) = self.lay(stage.as_deref(), plan, &parts)?;
                Ok((stand_ins, laid, parts, found))
            });
        match laid {
            Ok((stand_ins, laid, parts, found)) => {
                let held = Held { laid, stand_ins, owner, record };
                Ok((Made::new(self.daemon.clone(), name(id), held), parts, found))
            }
            Err(error) => {
                record.close().map_err(built("take the record back"))?;
                Err(error)
            }
        }
    }

    /// What keeps absent names absent: gVisor and virtual machines open what they mount, and a
    /// socket that nobody listens on cannot be opened.
    fn material(&self) -> Material {
        match self.kernel {
            Kernel::Hosts => Material::Socket,
            Kernel::UserSpace | Kernel::Own => Material::Directory,
        }
    }

    /// What the container is shown: prepared at `stage`, or where it is.
    fn lay(
        &self,
        stage: Option<&Path>,
        plan: &Plan,
        parts: &Parts,
    ) -> Result<(Laid, Found), BackendError> {
        if let Some(dir) = stage {
            let (stage, found) = self.stage(dir, plan, parts)?;
            return Ok((Laid::Mounted(stage), found));
        }
        let shares = self.direct(&parts.looked.shares)?;
        let dir = self.images().join(parts.image.file_name());
        let names = parts.lay_names(plan, &dir)?;
        let kept = parts.looked.disk.kept.as_ref().map(|it| self.seen(&it.from)).transpose()?;
        let dir = Plate::place(&self.places.state, &parts.id);
        let plate = plan.nameplate().map(|it| Plate::lay(dir, it)).transpose();
        let plate = plate.map_err(|source| BackendError::System {
            action: "name the sandbox's machine",
            source,
        })?;
        let found = Found {
            plate: plate.as_ref().map(|it| self.seen(it.dir())).transpose()?,
            ..self.found(parts, shares, Disk::Split { kept }, &names)?
        };
        Ok((Laid::Plain { _plate: plate }, found))
    }

    /// Whether files are prepared on this host for containers from here.
    pub(super) fn is_staged(&self) -> bool {
        decide(caller(), &self.daemon.facts).is_ok_and(Way::is_staged)
    }

    /// The user of a new container, and what proves that it is its own.
    fn user(&self, way: Way) -> io::Result<(User, Option<Owner>)> {
        let namespace = match way {
            Way::As(user) => return Ok((user, None)),
            Way::Translated(namespace) => namespace,
        };
        let owner = Owner::take(&self.places.runtime)?;
        let id = match owner.identity {
            Identity::Mapped { outside } => outside,
            Identity::Own { .. } => return Err(io::Error::other("we are not root any more")),
        };
        Ok((User { uid: id, gid: id, namespace }, Some(owner)))
    }

    /// The first process of a container and its counters, where they can be seen from here.
    async fn first(&self, container: &str) -> Option<First> {
        let found = self.daemon.docker.inspect_container(container, None).await.ok()?;
        let pid = i32::try_from(found.state?.pid?).ok().and_then(Pid::from_raw)?;
        // First the descriptor, then the look at whose it is: a number can change hands.
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let counters = Watched::of(pid.as_raw_nonzero().get().unsigned_abs(), container)?;
        Some(First { process, counters })
    }

    /// Why a guest never spoke.
    async fn stillborn(&self, container: &str) -> BackendError {
        let found = self.daemon.docker.inspect_container(container, None).await;
        let state = match found {
            Ok(found) => found.state.unwrap_or_default(),
            Err(error) => return self.daemon.failed("start a container")(error),
        };
        let said = state.error.filter(|it| !it.is_empty());
        let said = said.unwrap_or_else(|| {
            format!("its first process ended with {}", state.exit_code.unwrap_or_default())
        });
        BackendError::Daemon {
            daemon: self.daemon.facts.product.title(),
            action: "start a container",
            source: io::Error::other(bulkhead_spec::escape(&said)),
            hint: None,
        }
    }

    /// What would be asked of the daemon for `plan`, a line each.
    pub(super) fn blueprint(&self, plan: &Plan) -> Result<Vec<String>, BackendError> {
        self.check_network(plan)?;
        self.check_disk(plan)?;
        let way = decide(caller(), &self.daemon.facts)?;
        let user = match way {
            Way::As(user) => user,
            Way::Translated(namespace) => User { uid: 200_000, gid: 200_000, namespace },
        };
        let image = Image { id: image::name(plan), volumes: Vec::new() };
        let looked = look(plan)?;
        let parts = Parts { id: "ID".to_owned(), image, user, looked, names: Names::default() };
        let shares = parts.looked.shares.iter().map(Into::into).collect();
        let found = self.found(&parts, shares, Disk::Split { kept: None }, &self.images())?;
        Ok(lower::lower(plan, &found)?.lines())
    }
}

/// Who asks.
pub(super) fn caller() -> Caller {
    if is_host_root() {
        return Caller::Root;
    }
    Caller::User { uid: getuid().as_raw(), gid: getgid().as_raw() }
}
