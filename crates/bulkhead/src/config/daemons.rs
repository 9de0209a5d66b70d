//! What the caller's environment says about container daemons.

use bulkhead_backends::container::Surroundings;

use super::Environment;

/// The variables that Docker and Podman have for their own clients.
pub(crate) fn surroundings(environment: &Environment) -> Surroundings {
    let text = |name: &str| environment.get(name).map(|it| it.to_string_lossy().into_owned());
    Surroundings {
        docker_host: text("DOCKER_HOST"),
        docker_context: text("DOCKER_CONTEXT"),
        docker_config: environment.get("DOCKER_CONFIG").map(Into::into),
        docker_tls: text("DOCKER_TLS_VERIFY").or_else(|| text("DOCKER_TLS")).is_some(),
        container_host: text("CONTAINER_HOST"),
        home: environment.home(),
        runtime_dir: environment.dir("XDG_RUNTIME_DIR"),
        user: rustix::process::getuid().as_raw(),
    }
}
