//! A disk that lies in a container alone: at a rootless daemon whose owner we are, its namespaces are
//! ours to enter.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use bulkhead_guest::layer::{CopyOrder, Entry, Part, PartKind, Place};
use bulkhead_policy::Plan;
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, PidfdFlags, pidfd_open, test_kill_process},
};

use super::{Reach, Source, failed, opened};
use crate::{
    BackendError,
    container::{
        Container,
        find::Parts,
        lower::{Body, Found, Private, private},
    },
    copying::copy,
};

/// What is known of it.
pub(in crate::container) struct Inside {
    /// The first process of the container.
    process: OwnedFd,
    /// The root that this process sees.
    root: OwnedFd,
    /// By paths below that, without what something else is mounted over.
    parts: Vec<Part>,
    /// Who programs are inside.
    user: u32,
}

impl Container {
    /// Finds the disk in a container whose walls stand, unless it was found before, and fills it with
    /// what it begins with.
    pub(in crate::container) async fn enter_disk(
        &self,
        plan: &Plan,
        (container, disk): (&str, Source),
        (parts, found, body): (&Parts, &Found, &Body),
    ) -> Result<Source, BackendError> {
        if self.reach(plan.disk()) != Ok(Reach::Inside) {
            return Ok(disk);
        }
        let (process, root) = match self.process(container).await? {
            Some(found) => found,
            None if plan.disk().layers.is_empty() => return Ok(disk),
            None => return Err(failed(io::ErrorKind::NotFound.into())),
        };
        let part = |it: Private| Part {
            from: it.at.to_string_lossy().trim_start_matches('/').to_owned(),
            to: it.name,
            kind: PartKind::Plain,
        };
        let places = private(plan, found).into_iter().filter(Private::is_disk);
        let places = places.filter(|it| body.has_tmpfs(&it.at));
        let user = found.user.inside().0;
        let inside = Inside { process, root, parts: places.map(part).collect(), user };
        for layer in &parts.looked.disk.layers {
            inside.fill(&layer.from).await?;
        }
        Ok(Source::Inside(inside))
    }

    /// The first process of `container` and its root, if it can be seen from here.
    async fn process(
        &self,
        container: &str,
    ) -> Result<Option<(OwnedFd, OwnedFd)>, BackendError> {
        let Some(pid) = self.pid(container).await? else { return Ok(None) };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(None) };
        let number = pid.as_raw_nonzero();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{number}/root"), flags, Mode::empty());
        // A number can change hands; not while the daemon says that it is the container's.
        let same = test_kill_process(pid).is_ok() && self.pid(container).await? == Some(pid);
        Ok(root.ok().filter(|_| same).map(|root| (process, root)))
    }

    async fn pid(&self, container: &str) -> Result<Option<Pid>, BackendError> {
        let found = self.daemon.docker.inspect_container(container, None).await;
        let found = found.map_err(self.daemon.failed("look for a container"))?;
        let number = found.state.and_then(|it| it.pid);
        Ok(number.and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw))
    }
}

impl Inside {
    /// Copies the layer at `from` to where the disk is.
    async fn fill(&self, from: &Path) -> Result<(), BackendError> {
        let layer = opened(from).map_err(failed)?;
        let parts = self.parts.iter().cloned();
        let parts = parts.map(|Part { from, to, kind }| Part { from: to, to: from, kind });
        self.order(parts.collect(), Place::Laid, [&layer, &self.root]).await.map(drop)
    }

    pub(super) async fn copy(&self, layer: &Path) -> Result<(u64, u64), BackendError> {
        let layer = opened(layer).map_err(failed)?;
        self.order(self.parts.clone(), Place::Empty, [&self.root, &layer]).await
    }

    async fn order(
        &self,
        parts: Vec<Part>,
        place: Place,
        [base, layer]: [&OwnedFd; 2],
    ) -> Result<(u64, u64), BackendError> {
        let wanted = CopyOrder { parts, user: self.user, entry: Entry::Process, place };
        copy(&wanted, [self.process.as_fd(), base.as_fd(), layer.as_fd()]).await
    }
}
