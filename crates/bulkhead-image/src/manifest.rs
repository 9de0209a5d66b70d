//! The documents of an image: indexes, manifests and configurations.

use bulkhead_spec::{Digest, GuestPath, ImageFacts};
use serde::{Deserialize, Serialize};

use crate::ImageError;

/// The largest that any of them may be.
pub(crate) const LONGEST: u64 = 8 << 20;
/// More layers than the kernel would stack.
const MOST_LAYERS: usize = 400;

/// What registries are asked for.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// Where content is found, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: std::collections::BTreeMap<String, String>,
}

/// What an image runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) variant: String,
}

/// A document that leads on to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// One image for each kind of machine.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest { config: Descriptor, layers: Vec<Descriptor> },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u32>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    /// Reads an index or a manifest; which of them it is, is seen by what it holds.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        let raw: Raw =
            serde_json::from_slice(bytes).map_err(ImageError::malformed("manifest"))?;
        let wrong = |why: &str| ImageError::malformed("manifest")(why);
        if raw.schema_version != Some(2) {
            return Err(wrong("it is of the first, retired kind; push the image again"));
        }
        match (raw.manifests, raw.config, raw.layers) {
            (Some(manifests), None, None) => Ok(Self::Index(manifests)),
            (None, Some(config), Some(layers)) if layers.len() <= MOST_LAYERS => {
                check_layers(&layers)?;
                Ok(Self::Manifest { config, layers })
            }
            (None, Some(_), Some(_)) => Err(wrong("it has too many layers")),
            _ => Err(wrong("it is neither an index nor a manifest")),
        }
    }
}

fn check_layers(layers: &[Descriptor]) -> Result<(), ImageError> {
    let tar = |it: &&Descriptor| {
        let kind = it.media_type.as_str();
        kind.contains("tar") && !kind.contains("encrypted")
    };
    match layers.iter().find(|it| !tar(it)) {
        None => Ok(()),
        Some(other) => {
            let why = format!("a layer is of the kind `{}`", other.media_type);
            Err(ImageError::malformed("manifest")(why))
        }
    }
}

/// The one of `all` that is for this machine.
pub(crate) fn for_this_machine(all: &[Descriptor]) -> Result<&Descriptor, ImageError> {
    let (architecture, variants) = here();
    let fits = |it: &&Descriptor| {
        it.platform.as_ref().is_some_and(|it| {
            it.os == "linux"
                && it.architecture == architecture
                && (it.variant.is_empty() || variants.contains(&it.variant.as_str()))
        })
    };
    // The newest variant that this machine is sure to have.
    let rank = |it: &&Descriptor| {
        let variant = it.platform.as_ref().map_or("", |it| it.variant.as_str());
        variants.iter().position(|known| *known == variant).unwrap_or(variants.len())
    };
    if let Some(found) = all.iter().filter(fits).min_by_key(rank) {
        return Ok(found);
    }
    if let [only] = all
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let found: Vec<String> = all
        .iter()
        .filter_map(|it| it.platform.as_ref())
        .filter(|it| it.os != "unknown")
        .map(|it| bulkhead_spec::escape(&format!("{}/{}", it.os, it.architecture)))
        .collect();
    Err(ImageError::Platform {
        found: if found.is_empty() { "no machine".to_owned() } else { found.join(", ") },
        needed: format!("linux/{architecture}"),
    })
}

/// The architecture of this machine as images call it, and its variants, the preferred first.
fn here() -> (&'static str, &'static [&'static str]) {
    match std::env::consts::ARCH {
        "x86_64" => ("amd64", &["v1"]),
        "aarch64" => ("arm64", &["v8"]),
        "arm" => ("arm", &["v7", "v6", "v5"]),
        "x86" => ("386", &[]),
        "powerpc64" => ("ppc64le", &[]),
        "loongarch64" => ("loong64", &[]),
        other => (other, &[]),
    }
}

/// The configuration of an image, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default, rename = "config")]
    run: Option<RunConfig>,
    rootfs: RootFs,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RunConfig {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<Digest>,
}

/// An image as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Which image: of its manifest, or of its configuration where it has none.
    pub(crate) digest: Digest,
    /// Its layers, the lowest first.
    pub(crate) layers: Vec<Digest>,
    user: Option<String>,
    env: Vec<String>,
    dir: Option<String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

impl Config {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        let config: Self =
            serde_json::from_slice(bytes).map_err(ImageError::malformed("configuration"))?;
        let (architecture, _) = here();
        let other = |found: &str, needed: &str| !found.is_empty() && found != needed;
        if other(&config.os, "linux") || other(&config.architecture, architecture) {
            let found = format!("{}/{}", config.os, config.architecture);
            return Err(ImageError::Platform {
                found: bulkhead_spec::escape(&found),
                needed: format!("linux/{architecture}"),
            });
        }
        if MOST_LAYERS < config.rootfs.diff_ids.len() || config.rootfs.diff_ids.is_empty() {
            let count = config.rootfs.diff_ids.len();
            let why = format!("it has {count} layers");
            return Err(ImageError::malformed("configuration")(why));
        }
        Ok(config)
    }

    /// The digests of its layers, unpacked, the lowest first.
    pub(crate) fn layers(&self) -> &[Digest] {
        &self.rootfs.diff_ids
    }

    /// What the store keeps of it.
    pub(crate) fn record(self, digest: Digest) -> Record {
        let run = self.run.unwrap_or_default();
        Record {
            digest,
            layers: self.rootfs.diff_ids,
            user: run.user.filter(|it| !it.is_empty()),
            env: run.env.unwrap_or_default(),
            dir: run.working_dir.filter(|it| !it.is_empty()),
            entrypoint: run.entrypoint.unwrap_or_default(),
            command: run.cmd.unwrap_or_default(),
        }
    }
}

impl Record {
    /// What it says about itself, under the name that it was asked for by.
    pub(crate) fn facts(&self, name: &str) -> ImageFacts {
        let words = |it: &[String]| it.iter().map(Into::into).collect();
        let pair = |it: &String| {
            let (name, value) = it.split_once('=')?;
            (!name.is_empty()).then(|| (name.into(), value.into()))
        };
        let dir = self
            .dir
            .as_deref()
            .and_then(|it| GuestPath::try_from(std::path::Path::new("/").join(it)).ok());
        ImageFacts {
            name: name.to_owned(),
            digest: self.digest,
            env: self.env.iter().filter_map(pair).collect(),
            dir,
            user: self.user.clone(),
            entrypoint: words(&self.entrypoint),
            command: words(&self.command),
        }
    }
}
