//! The daemon that images are built in.

use std::time::Duration;

use bollard::Docker;
use bulkhead_backends::container::{Facts, Product, detect::Address, find};
use bulkhead_image::build::Engine;

use crate::{
    codes::Code,
    config::{Environment, surroundings},
    failure::Failure,
};

/// A daemon may think about a layer of some gigabytes for that long.
const PATIENCE: Duration = Duration::from_mins(30);

/// A daemon that answers, and a client for it.
pub(super) struct Daemon {
    /// What it said about itself.
    pub(super) facts: Facts,
    /// The client.
    pub(super) docker: Docker,
}

impl Daemon {
    /// Where it is, in the words of builds.
    pub(super) fn engine(&self) -> Result<Engine, Failure> {
        match &self.facts.address {
            Address::Unix(path) => Ok(Engine::Socket(path.clone())),
            Address::Tcp(host) => Ok(Engine::Tcp(host.clone())),
            Address::Foreign { text, hint } => {
                Err(Failure::new(Code::ImageBuild, format!("cannot talk to `{text}`"))
                    .hint(*hint))
            }
        }
    }
}

/// The daemon that the caller's variables name, or the first that is found: Docker's, then Podman's.
pub(super) async fn connect(environment: &Environment) -> Result<Daemon, Failure> {
    let around = surroundings(environment);
    let podman_named = around.container_host.is_some() && around.docker_host.is_none();
    let order = if podman_named {
        [Product::Podman, Product::Docker]
    } else {
        [Product::Docker, Product::Podman]
    };
    let mut causes = Vec::new();
    for product in order {
        match find(product, &around).await {
            Ok(facts) => return client_of(facts),
            Err(error) => causes.push(error.to_string()),
        }
    }
    let failure = Failure::new(Code::ImageBuild, "no container daemon answers");
    let failure = causes.into_iter().fold(failure, Failure::because);
    Err(failure.hint("start Docker or Podman's service, or name its socket with DOCKER_HOST"))
}

/// The daemon of `product`.
pub(super) async fn connect_to(
    product: Product,
    environment: &Environment,
) -> Result<Daemon, Failure> {
    client_of(find(product, &surroundings(environment)).await?)
}

fn client_of(facts: Facts) -> Result<Daemon, Failure> {
    let docker = facts
        .connect(PATIENCE)
        .map_err(|error| Failure::from_error(Code::ImageBuild, &error))?;
    Ok(Daemon { facts, docker })
}
