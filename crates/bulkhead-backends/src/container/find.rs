//! Looks at everything that a container is made from, and lays out what it needs on this host.

use std::{
    io,
    path::{Path, PathBuf},
};

use bulkhead_linux::{identity::Opener, mounts::Inode};
use bulkhead_policy::Plan;
use bulkhead_spec::{Access, escape_bytes};

use super::{
    Container, Kernel,
    lower::{Disk, Found, Image, Shown, User, private, whole},
    names::{self, Names},
    paths::Paths,
    probe::Machine,
    stage::Stage,
    who::Way,
};
use crate::{
    BackendError,
    workspace::{
        disk::FoundDisk,
        protect::{self, Protection},
        share::{Share, share},
    },
};

/// What a plan shares, as it lies on this host.
pub(super) struct Looked {
    pub(super) shares: Vec<Share>,
    pub(super) protections: Vec<Protection>,
    pub(super) disk: FoundDisk,
}

/// Looks at what `plan` shares.
pub(super) fn look(plan: &Plan) -> Result<Looked, BackendError> {
    let mut shares = Vec::new();
    let mut protections = Vec::new();
    for mount in plan.mounts() {
        shares.push(share(mount.from.as_path(), mount.to.as_path(), mount.access)?);
    }
    if let Some(workspace) = plan.workspace() {
        let dir = workspace.dir.as_path();
        shares.push(share(dir, dir, workspace.access)?);
        let found = protect::find(workspace, plan.home().as_path())?;
        shares.extend(found.shares);
        protections = found.protections;
    }
    shares.sort_by_key(|it| it.to.components().count());
    for path in shares.iter().map(|it| &it.from).chain(protections.iter().map(|it| &it.path)) {
        is_text(path)?;
    }
    let disk = FoundDisk::survey(plan.disk())?;
    Ok(Looked { shares, protections, disk })
}

/// A daemon takes paths as text.
fn is_text(path: &Path) -> Result<(), BackendError> {
    match path.to_str() {
        Some(text) if !text.contains('\n') => Ok(()),
        Some(_) | None => Err(refused(path, "its name is not text that a daemon takes")),
    }
}

fn refused(path: &Path, why: &str) -> BackendError {
    let path = escape_bytes(path.as_os_str().as_encoded_bytes());
    BackendError::Share { path, why: why.to_owned() }
}

/// Who the container is and what it is shown, before anything was made.
pub(super) struct Parts {
    pub(super) id: String,
    pub(super) image: Image,
    pub(super) user: User,
    pub(super) looked: Looked,
    /// The users that its image knows.
    pub(super) names: Names,
}

impl Parts {
    /// Writes the lists of users and groups below `dir`, and says where.
    pub(super) fn lay_names(&self, plan: &Plan, dir: &Path) -> Result<PathBuf, BackendError> {
        let laid = names::lay(self.names.clone(), self.user, plan, dir);
        laid.map_err(|source| BackendError::System {
            action: "name the sandbox's user",
            source,
        })
    }
}

impl Container {
    /// Everything for the body of a container whose files the daemon finds where they are.
    pub(super) fn found(
        &self,
        parts: &Parts,
        shares: Vec<Shown>,
        disk: Disk,
        names: &Path,
    ) -> Result<Found, BackendError> {
        Ok(Found {
            id: parts.id.clone(),
            instance: self.instance.clone(),
            image: parts.image.clone(),
            user: parts.user,
            runtime: self.runtime.clone(),
            kernel: self.kernel,
            caught: self.caught,
            disk,
            shares,
            protections: parts.looked.protections.clone(),
            props: self.seen(&self.props)?,
            names: self.seen(names)?,
            plate: None,
        })
    }

    /// What is shared, at the paths at which the daemon sees them.
    pub(super) fn direct(&self, shares: &[Share]) -> Result<Vec<Shown>, BackendError> {
        let shown = |it: &Share| {
            if it.access == Access::Private {
                let why = "only root can have a container change it privately; share it \
                           read-only, or use --backend native";
                return Err(refused(&it.from, why));
            }
            Ok(Shown { source: self.seen(&it.from)?, inode: self.inode(it), ..it.into() })
        };
        shares.iter().map(shown).collect()
    }

    /// Which file a guest must find in the place of `share`, where it sees this host's.
    fn inode(&self, share: &Share) -> Option<Inode> {
        match (self.daemon.facts.machine, self.kernel) {
            (Machine::This, Kernel::Hosts) => Some(share.looked.inode),
            (Machine::Other, _) | (_, Kernel::UserSpace | Kernel::Own) => None,
        }
    }

    /// Where the daemon sees `path`.
    pub(super) fn seen(&self, path: &Path) -> Result<PathBuf, BackendError> {
        let text = path.to_str().ok_or_else(|| refused(path, "its name is not text"))?;
        let seen = self.paths.of(text).map_err(|error| refused(path, &error.to_string()))?;
        Ok(PathBuf::from(seen))
    }

    /// Mounts what the container of `parts` is to be shown, on this host; when its disk has what it
    /// begins with, [`Container::begin_disk`] adds the rest.
    pub(super) fn stage(
        &self,
        dir: &Path,
        plan: &Plan,
        parts: &Parts,
    ) -> Result<(Stage, Found), BackendError> {
        let failed = |source: io::Error| BackendError::Build {
            action: "mount the sandbox's private directories".to_owned(),
            source,
            hint: None,
        };
        let opener = match self.kernel {
            Kernel::Hosts => Opener::Themselves,
            Kernel::UserSpace | Kernel::Own => Opener::Root,
        };
        let kept = parts.looked.disk.kept.as_ref();
        let stage = Stage::lay(dir, (parts.user.uid, opener), whole(plan), kept);
        let stage = stage.map_err(failed)?;
        let shares = stage.show(&parts.looked.shares)?;
        let names = parts.lay_names(plan, &stage.dir().join("names"))?;
        let disk = Disk::Laid { dir: stage.dir().to_owned() };
        let plate = stage.plate(plan.nameplate()).map_err(failed)?;
        let found = Found { plate, ..self.found(parts, shares, disk, &names)? };
        stage.furnish(&private(plan, &found)).map_err(failed)?;
        // Where somebody has been before, they are there, or were changed or removed.
        for (name, content) in plan.home_files().iter().filter(|_| !plan.disk().is_used()) {
            stage.home_file(name, content).map_err(failed)?;
        }
        stage.notes(plan.notes()).map_err(failed)?;
        Ok((stage, found))
    }
}

/// The table of paths for a daemon on `machine`.
pub(super) fn paths_of(machine: Machine) -> Paths {
    match (machine, std::env::consts::OS) {
        (Machine::This, _) => Paths::same(),
        (Machine::Other, "macos") => Paths::mac(),
        (Machine::Other, "windows") => Paths::windows(),
        (Machine::Other, _) => Paths::linux(),
    }
}

impl Way {
    /// Whether files must be prepared for it on this host.
    pub(super) fn is_staged(self) -> bool {
        matches!(self, Self::Translated(_))
    }
}
