//! The digest that a tag stands for today.

use bollard::Docker;
use oci_client::{Client, Reference, secrets::RegistryAuth};

/// What the daemon noted when it fetched `image`.
pub async fn by_daemon(docker: &Docker, image: &str) -> Option<String> {
    let about = docker.inspect_image(image).await.ok()?;
    let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
    let digests = about.repo_digests?;
    let own = digests.iter().filter_map(|it| it.split_once('@')).find(|it| it.0 == name)?;
    is_digest(own.1).then(|| own.1.to_owned())
}

/// What the registry of `image` says, asked without credentials.
pub async fn by_registry(image: &str) -> Option<String> {
    let reference: Reference = image.parse().ok()?;
    let client = Client::default();
    let digest =
        client.fetch_manifest_digest(&reference, &RegistryAuth::Anonymous).await.ok()?;
    is_digest(&digest).then_some(digest)
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|it| it.is_ascii_hexdigit()))
}
