//! The name of an image in a registry.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Digest;
use crate::escape;

/// The registry of names that do not say.
const DEFAULT: &str = "docker.io";

/// `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`, with what was left out filled in as Docker does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A text that is not the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the name of an image: {why}", escape(.text))]
pub struct InvalidReference {
    text: String,
    why: &'static str,
}

impl Reference {
    /// The host, and the port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path on it.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `latest` where neither tag nor digest was said.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest that the image must have.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Registry and repository, which a policy decides about.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        parse(text)
            .map_err(|why| InvalidReference { text: text.chars().take(300).collect(), why })
    }
}

fn parse(text: &str) -> Result<Reference, &'static str> {
    let (rest, digest) = match text.split_once('@') {
        None => (text, None),
        Some((rest, digest)) => {
            let digest = digest.parse().map_err(|_| "after `@` comes a sha256 digest")?;
            (rest, Some(digest))
        }
    };
    let (registry, path) = match rest.split_once('/') {
        Some((first, path)) if is_host(first) => (first, path),
        Some(_) | None => (DEFAULT, rest),
    };
    let registry = match registry {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT,
        other => other,
    };
    check_host(registry)?;
    let (path, tag) = match path.split_once(':') {
        None => (path, None),
        Some((path, tag)) => (path, Some(checked_tag(tag)?)),
    };
    if 255 < path.len() || !path.split('/').all(is_component) {
        return Err("it is written in lower case letters, digits, `.`, `_`, `-` and `/`");
    }
    let official = registry == DEFAULT && !path.contains('/');
    let repository = if official { format!("library/{path}") } else { path.to_owned() };
    let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_owned()));
    Ok(Reference { registry: registry.to_owned(), repository, tag, digest })
}

fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

/// A host is connected to and printed, so it is nothing but a host.
fn check_host(host: &str) -> Result<(), &'static str> {
    let (name, port) = match (host.strip_prefix('['), host.rsplit_once(':')) {
        (Some(rest), _) => {
            let (inner, port) = rest.split_once(']').ok_or("its host has no `]`")?;
            let address = inner.parse::<std::net::Ipv6Addr>();
            address.map_err(|_| "between `[` and `]` is an IPv6 address")?;
            ("localhost", port.strip_prefix(':').or(port.is_empty().then_some("0")))
        }
        (None, Some((name, port))) => (name, Some(port)),
        (None, None) => (host, Some("0")),
    };
    let port = port.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    port.and_then(|it| it.parse::<u16>().ok()).ok_or("its port is not a number")?;
    let label = |it: &str| {
        !it.is_empty()
            && !it.starts_with('-')
            && !it.ends_with('-')
            && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if name.len() <= 253 && name.split('.').all(label) {
        return Ok(());
    }
    Err("its registry is not the name of a host")
}

fn checked_tag(tag: &str) -> Result<String, &'static str> {
    let fine = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'.' | b'-');
    let first = tag.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    if first && tag.len() <= 128 && tag.bytes().all(fine) {
        return Ok(tag.to_owned());
    }
    Err("its tag has up to 128 letters, digits, `_`, `.` and `-`")
}

fn is_component(part: &str) -> bool {
    let word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let fine = |it: u8| word(it) || matches!(it, b'.' | b'_' | b'-');
    part.bytes().all(fine)
        && part.bytes().next().is_some_and(word)
        && part.bytes().last().is_some_and(word)
        && !part.contains("..")
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(out, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(out, "@{digest}"))
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
