//! The daemon that images are built in.

use std::time::Duration;

use bollard::Docker;
use bulkhead_backends::container::{Facts, Product, Surroundings, find};

use crate::{codes::Code, config::Environment, failure::Failure};

/// A daemon may think about a layer of some gigabytes for that long.
const PATIENCE: Duration = Duration::from_mins(30);

/// A daemon that answers, and a client for it.
pub(super) struct Daemon {
    /// What it said about itself.
    pub(super) facts: Facts,
    /// The client.
    pub(super) docker: Docker,
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
            Ok(facts) => {
                let docker = facts
                    .connect(PATIENCE)
                    .map_err(|error| Failure::from_error(Code::ImageBuild, &error))?;
                return Ok(Daemon { facts, docker });
            }
            Err(error) => causes.push(error.to_string()),
        }
    }
    let failure = Failure::new(Code::ImageBuild, "no container daemon answers");
    let failure = causes.into_iter().fold(failure, Failure::because);
    Err(failure.hint("start Docker or Podman's service, or name its socket with DOCKER_HOST"))
}

fn surroundings(environment: &Environment) -> Surroundings {
    let text = |name: &str| environment.get(name).and_then(|it| it.to_str()).map(str::to_owned);
    Surroundings {
        docker_host: text("DOCKER_HOST"),
        docker_context: text("DOCKER_CONTEXT"),
        docker_config: environment.dir("DOCKER_CONFIG"),
        docker_tls: environment.get("DOCKER_TLS_VERIFY").is_some()
            || environment.get("DOCKER_TLS").is_some(),
        container_host: text("CONTAINER_HOST"),
        home: environment.home(),
        runtime_dir: environment.dir("XDG_RUNTIME_DIR"),
        user: rustix::process::getuid().as_raw(),
    }
}
