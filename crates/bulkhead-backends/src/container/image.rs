//! The image that a container starts from, by its digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::PathBuf,
};

use bollard::{
    errors::Error, models::ImageInspect, query_parameters::CreateImageOptionsBuilder,
};
use bulkhead_policy::Plan;
use bulkhead_spec::{
    Digest, GuestPath, ImageFacts, ImageRef, ImageSource, Pull, Reference, Root, escape,
};
use futures_util::TryStreamExt as _;

use super::{
    client::{Daemon, status},
    lower::Image,
};
use crate::BackendError;

/// What a sandbox starts from whose root is "the host's programs": a container has none of them.
pub(super) const AGENT: &str = "bulkhead/agent";

/// The image of `plan`.
pub(super) async fn find(daemon: &Daemon, plan: &Plan) -> Result<Image, BackendError> {
    let name = match (plan.root(), plan.image()) {
        (Root::Image(_), Some(facts)) => facts.digest.to_string(),
        (Root::Image(image), None) => furnish(daemon, image).await?.digest.to_string(),
        (Root::Host, _) => AGENT.to_owned(),
        (Root::Directory(_), _) => {
            return Err(BackendError::Unsupported {
                backend: daemon.name(),
                what: "a sandbox from a directory; the native one can",
            });
        }
    };
    let found = inspect(daemon, &name).await?;
    let found = found.ok_or_else(|| absent(daemon, &name))?;
    let config = found.config.unwrap_or_default();
    // In an order of our own: what a copy of a disk calls them depends on it.
    let volumes: BTreeSet<PathBuf> =
        config.volumes.unwrap_or_default().into_iter().map(PathBuf::from).collect();
    Ok(Image {
        id: found.id.ok_or_else(|| absent(daemon, &name))?,
        volumes: volumes.into_iter().collect(),
    })
}

/// What the image of `plan` is called, without asking for it.
pub(super) fn name(plan: &Plan) -> String {
    match (plan.root(), plan.image()) {
        (_, Some(facts)) => facts.digest.to_string(),
        (Root::Image(image), None) => image.source.to_string(),
        (Root::Host | Root::Directory(_), None) => AGENT.to_owned(),
    }
}

/// Makes `image` available, and tells what it says about itself.
pub(super) async fn furnish(
    daemon: &Daemon,
    image: &ImageRef,
) -> Result<ImageFacts, BackendError> {
    let reference = match &image.source {
        ImageSource::Registry(reference) | ImageSource::Daemon(reference) => reference,
        ImageSource::Layout { .. } | ImageSource::Archive { .. } => {
            return Err(BackendError::Image {
                image: image.source.to_string(),
                source: "it is in a file, and this daemon takes images from its own store"
                    .into(),
                hint: Some(format!(
                    "load it with `{} load`, or use --backend native",
                    daemon.name()
                )),
            });
        }
    };
    let name = reference.to_string();
    let pull = match image.source {
        ImageSource::Daemon(_) => Pull::Never,
        ImageSource::Registry(_) | ImageSource::Layout { .. } | ImageSource::Archive { .. } => {
            image.pull
        }
    };
    let mut found = match pull {
        Pull::Never | Pull::Missing => inspect(daemon, &name).await?,
        Pull::Always => None,
    };
    if found.is_none() && pull != Pull::Never {
        fetch(daemon, reference).await?;
        found = inspect(daemon, &name).await?;
    }
    let found = found.ok_or_else(|| absent(daemon, &name))?;
    facts(&name, found).map_err(|why| BackendError::Image {
        image: escape(&name),
        source: why.into(),
        hint: None,
    })
}

async fn inspect(daemon: &Daemon, name: &str) -> Result<Option<ImageInspect>, BackendError> {
    match daemon.docker.inspect_image(name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if status(&error) == Some(404) => Ok(None),
        Err(error) => Err(daemon.failed("look for an image")(error)),
    }
}

async fn fetch(daemon: &Daemon, reference: &Reference) -> Result<(), BackendError> {
    let name = reference.to_string();
    let options = CreateImageOptionsBuilder::default().from_image(&name).build();
    let fetched: Result<Vec<_>, Error> =
        daemon.docker.create_image(Some(options), None, None).try_collect().await;
    fetched.map(drop).map_err(|error| BackendError::Image {
        image: escape(&name),
        source: io::Error::other(escape(&error.to_string())).into(),
        hint: Some("what the daemon has can be used with --pull never".to_owned()),
    })
}

/// Whether `name` means the agents' image, however much of it is written out.
fn is_agents(name: &str) -> bool {
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_suffix(":latest").unwrap_or(name) == AGENT
}

fn absent(daemon: &Daemon, name: &str) -> BackendError {
    let hint = if is_agents(name) {
        "make it with `bulkhead image bootstrap`, or name another one with --image".to_owned()
    } else {
        format!("`{} image ls` lists what it has", daemon.name())
    };
    BackendError::Image {
        image: escape(name),
        source: format!("{} does not have it", daemon.facts.product.title()).into(),
        hint: Some(hint),
    }
}

fn facts(name: &str, found: ImageInspect) -> Result<ImageFacts, String> {
    let id = found.id.unwrap_or_default();
    // Podman leaves the kind of digest out.
    let id = if id.contains(':') { id } else { format!("sha256:{id}") };
    let digest: Digest = id.parse().map_err(|error| format!("its id is odd: {error}"))?;
    let config = found.config.unwrap_or_default();
    let words = |of: Option<Vec<String>>| -> Vec<OsString> {
        of.unwrap_or_default().into_iter().map(OsString::from).collect()
    };
    let variable = |it: String| {
        let (name, value) = it.split_once('=')?;
        Some((OsString::from(name), OsString::from(value)))
    };
    let env: BTreeMap<OsString, OsString> =
        config.env.unwrap_or_default().into_iter().filter_map(variable).collect();
    Ok(ImageFacts {
        name: name.to_owned(),
        digest,
        env,
        dir: config.working_dir.and_then(|it| it.parse::<GuestPath>().ok()),
        user: config.user.filter(|it| !it.is_empty()),
        entrypoint: words(config.entrypoint),
        command: words(config.cmd),
    })
}

#[cfg(test)]
mod tests {
    use super::is_agents;

    #[test]
    fn the_agents_image_is_known_by_each_of_its_names() {
        for name in
            ["bulkhead/agent", "bulkhead/agent:latest", "docker.io/bulkhead/agent:latest"]
        {
            assert!(is_agents(name), "{name}");
        }
        assert!(!is_agents("bulkhead/agent:1"));
        assert!(!is_agents("example.org/bulkhead/agent"));
    }
}
