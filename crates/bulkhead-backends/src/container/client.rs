//! What we ask of a daemon, and what its refusals mean.

use std::{
    error::Error as _,
    io,
    time::{Duration, Instant},
};

use bollard::{
    Docker,
    errors::Error,
    models::{ContainerCreateBody, ContainerInspectResponse, ContainerUpdateBody},
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder,
        KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    },
};
use bulkhead_spec::{Limits, escape};

use super::{Attached, Facts, Product, libpod, podman};
use crate::BackendError;

/// How long one request may take. Starting fifty containers at once takes some seconds on a small
/// machine, and a daemon that has stopped answering must not hold us for ever.
const PATIENCE: Duration = Duration::from_mins(1);

/// A daemon that was probed.
#[derive(Clone, Debug)]
pub(super) struct Daemon {
    pub(super) docker: Docker,
    pub(super) facts: Facts,
}

impl Daemon {
    pub(super) fn connect(facts: Facts) -> Result<Self, BackendError> {
        match facts.connect(PATIENCE) {
            Ok(docker) => Ok(Self { docker, facts }),
            Err(error) => Err(failure(&facts, "answer", &error)),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.facts.product.name()
    }

    /// An error of ours for one of the daemon's, at something that it was to do.
    pub(super) fn failed(&self, action: &'static str) -> impl Fn(Error) -> BackendError {
        move |error| failure(&self.facts, action, &error)
    }

    /// Has a container made, under the name of its sandbox.
    pub(super) async fn create(
        &self,
        name: &str,
        request: ContainerCreateBody,
    ) -> Result<String, BackendError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let made = self.docker.create_container(Some(options), request).await;
        made.map(|it| it.id).map_err(self.failed("create a container"))
    }

    /// The streams of its first process, whole from the first byte if it is not started yet.
    pub(super) async fn attach(&self, container: &str) -> Result<Attached, BackendError> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .build();
        let attached = self.docker.attach_container(container, Some(options)).await;
        attached.map(Attached::new).map_err(self.failed("attach to a container"))
    }

    pub(super) async fn start(&self, container: &str) -> Result<(), BackendError> {
        let started = self.docker.start_container(container, None).await;
        started.map_err(self.failed("start a container"))
    }

    /// Changes the limits of a container that runs. What is `None` stays.
    pub(super) async fn update(
        &self,
        container: &str,
        limits: &Limits,
    ) -> Result<(), BackendError> {
        let failed = self.failed("change the limits of a container");
        if self.facts.product == Product::Podman {
            let place = (&self.facts.address, PATIENCE);
            return libpod::update(place, container, limits).await.map_err(failed);
        }
        let memory = limits.memory.map(|it| i64::try_from(it.0).unwrap_or(i64::MAX));
        let body = ContainerUpdateBody {
            memory,
            // Memory and swap together: none is left for swap.
            memory_swap: memory,
            nano_cpus: limits.cpus.map(|it| i64::from(it.millis()) * 1_000_000),
            pids_limit: limits.pids.map(i64::from),
            ..ContainerUpdateBody::default()
        };
        self.docker.update_container(container, body).await.map_err(failed)
    }

    /// Has every process of a container stand still, unless they do.
    pub(super) async fn pause(&self, container: &str) -> Result<(), BackendError> {
        match self.docker.pause_container(container).await {
            Err(error) if self.is_paused(container).await != Some(true) => {
                Err(self.failed("freeze a container")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Lets them go on, unless they do.
    pub(super) async fn unpause(&self, container: &str) -> Result<(), BackendError> {
        match self.docker.unpause_container(container).await {
            Err(error) if self.is_paused(container).await != Some(false) => {
                Err(self.failed("let a container go on")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn is_paused(&self, container: &str) -> Option<bool> {
        self.docker.inspect_container(container, None).await.ok()?.state?.paused
    }

    /// What is said of a container whose first process is gone.
    pub(super) async fn ended(
        &self,
        container: &str,
    ) -> Result<ContainerInspectResponse, Error> {
        match self.facts.product {
            Product::Docker => self.docker.inspect_container(container, None).await,
            Product::Podman => podman::settled(&self.docker, container).await,
        }
    }

    /// Ends every process of a container; one that has ended or is gone is what we wanted.
    pub(super) async fn kill(&self, container: &str) -> Result<(), BackendError> {
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        match self.docker.kill_container(container, Some(options)).await {
            Ok(()) => Ok(()),
            Err(error) if matches!(status(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(self.failed("end a container")(error)),
        }
    }

    /// Ends and removes a container with everything that was made for it.
    pub(super) async fn remove(&self, container: &str) -> Result<(), BackendError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match self.docker.remove_container(container, Some(options)).await {
                Ok(()) => return Ok(()),
                Err(error) if status(&error) == Some(404) => return Ok(()),
                Err(error) if is_passing(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => return Err(self.failed("remove a container")(error)),
            }
        }
    }
}

/// Whether somebody else is at it, or the container is on its way out.
fn is_passing(error: &Error) -> bool {
    if let Error::DockerResponseServerError { status_code, message } = error {
        return *status_code == 409 || podman::is_passing(message);
    }
    false
}

/// The daemon's own word for what went wrong, if it spoke at all.
pub(super) fn status(error: &Error) -> Option<u16> {
    if let Error::DockerResponseServerError { status_code, .. } = error {
        return Some(*status_code);
    }
    None
}

fn failure(facts: &Facts, action: &'static str, error: &Error) -> BackendError {
    let daemon = facts.product.title();
    if let Error::DockerResponseServerError { message, .. } = error {
        let source = io::Error::other(escape(message.trim()));
        let hint = hint(message);
        return BackendError::Daemon { daemon, action, source, hint };
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let source = io::Error::other(escape(&text));
    let hint = format!(
        "it does not answer at {}; when it runs again, so will this: `bulkhead doctor` tells",
        facts.address
    );
    BackendError::Daemon { daemon, action, source, hint: Some(hint) }
}

/// What to do about refusals that are known.
fn hint(message: &str) -> Option<String> {
    let hint = if message.contains("bind source path does not exist")
        || message.contains("no such file or directory")
    {
        "the daemon does not see the files of this host, or not our mounts: run it in the same \
         mount namespace, or use --backend native"
    } else if message.contains("Unknown runtime") || message.contains("runtime name not found")
    {
        "`bulkhead doctor` lists the runtimes that the daemon has"
    } else if message.contains("hybrid mode not supported") {
        "its runtime does not take this host's cgroups; with another one it works: --runtime runc"
    } else {
        return None;
    };
    Some(hint.to_owned())
}
