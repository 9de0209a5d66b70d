//! Images: root filesystems that somebody packed.

mod reference;

use std::{collections::BTreeMap, ffi::OsString, fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

use crate::{GuestPath, HostPath, escape};

pub use reference::{InvalidReference, Reference};

/// An image that is wanted as the root, and when it may be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// Where it is.
    pub source: ImageSource,
    /// When a registry is asked.
    pub pull: Pull,
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSource {
    /// In a registry, or here if it was fetched before.
    Registry(Reference),
    /// In a directory of the OCI image layout.
    Layout {
        /// The directory.
        dir: HostPath,
        /// Which of its images, if it has several.
        tag: Option<String>,
    },
    /// In a tar file, as `docker save` or an OCI exporter writes it.
    Archive {
        /// The file.
        file: HostPath,
        /// Which of its images, if it has several.
        name: Option<String>,
    },
    /// In the store of the local container engine.
    Daemon(Reference),
}

/// When a registry is asked for an image.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// Never: what was fetched before is used, or nothing.
    Never,
    /// If the image is not here.
    #[default]
    Missing,
    /// Each time, for what the name stands for now.
    Always,
}

/// What an image says about itself, as far as a sandbox goes by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageFacts {
    /// The name that it was asked for by.
    pub name: String,
    /// Which one it is: of its manifest where it has one, else of its configuration.
    pub digest: Digest,
    /// Variables that its programs start with; those of the caller go before them.
    #[serde(skip)]
    pub env: BTreeMap<OsString, OsString>,
    /// Where its program starts.
    pub dir: Option<GuestPath>,
    /// Who its program is to run as. A sandbox has one user, who takes this one's place.
    pub user: Option<String>,
    /// The program that always runs.
    #[serde(skip)]
    pub entrypoint: Vec<OsString>,
    /// Its arguments, or the program, where the caller names none.
    #[serde(skip)]
    pub command: Vec<OsString>,
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A digest that is none, or of a kind that is not in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not `sha256:` and 64 hexadecimal digits", escape(.0))]
pub struct InvalidDigest(String);

impl Digest {
    /// The digest with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 64 digits alone, which are a name that any filesystem takes.
    pub fn hex(&self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        digits.filter_map(|it| char::from_digit(it.into(), 16)).collect()
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.chars().take(100).collect());
        let hex = text.strip_prefix("sha256:").ok_or_else(invalid)?.as_bytes();
        let digit = |it: u8| match it {
            b'0'..=b'9' => Some(it - b'0'),
            b'a'..=b'f' => Some(it - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = hex.as_chunks::<2>() else { return Err(invalid()) };
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        bytes.and_then(|it| it.try_into().ok()).map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for ImageSource {
    /// As it is written after `--image`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, place, name) = match self {
            Self::Registry(reference) => return reference.fmt(out),
            Self::Daemon(reference) => return write!(out, "docker-daemon:{reference}"),
            Self::Layout { dir, tag } => ("oci", dir, tag),
            Self::Archive { file, name } => ("docker-archive", file, name),
        };
        write!(out, "{kind}:{place}")?;
        name.as_ref().map_or(Ok(()), |name| write!(out, ":{}", escape(name)))
    }
}

impl Pull {
    /// The name by which flags and files know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Missing => "missing",
            Self::Always => "always",
        }
    }
}
