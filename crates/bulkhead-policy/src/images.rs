//! Which images may be a root.

use std::{collections::BTreeSet, fmt, str::FromStr};

use bulkhead_spec::{ImageSource, Reference, escape};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One rule of what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageRule {
    /// Layouts, archives and the local engine's images: whatever was put on this host.
    Local,
    /// A registry, or what is below a path on it.
    Below(String),
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is neither `local` nor a registry, such as `docker.io/library` or `registry.example`",
    escape(.0)
)]
pub struct InvalidImageRule(String);

impl FromStr for ImageRule {
    type Err = InvalidImageRule;

    fn from_str(text: &str) -> Result<Self, InvalidImageRule> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let invalid = || InvalidImageRule(text.to_owned());
        let bare = text.strip_suffix("/*").unwrap_or(text).trim_end_matches('/');
        let (host, _) = bare.split_once('/').unwrap_or((bare, ""));
        // A rule without a host would mean another registry than its writer thinks.
        let hosted = host.contains(['.', ':']) || host == "localhost";
        // Whatever lies below must be a name that can be asked for.
        let probe: Reference = format!("{bare}/x").parse().map_err(|_| invalid())?;
        let kept = probe.name() == format!("{bare}/x") && probe.tag() == Some("latest");
        if hosted && kept { Ok(Self::Below(bare.to_owned())) } else { Err(invalid()) }
    }
}

impl fmt::Display for ImageRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Local => "local",
            Self::Below(path) => path,
        })
    }
}

impl Serialize for ImageRule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageRule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl ImageRule {
    fn allows(&self, source: &ImageSource) -> bool {
        match (self, source) {
            (Self::Below(path), ImageSource::Registry(image)) => {
                lies_below(&image.name(), path)
            }
            (
                Self::Local,
                ImageSource::Layout { .. }
                | ImageSource::Archive { .. }
                | ImageSource::Daemon(_),
            ) => true,
            (Self::Local | Self::Below(_), _) => false,
        }
    }

    /// Whether everything that `other` allows is allowed here.
    fn holds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local, Self::Local) => true,
            (Self::Below(path), Self::Below(other)) => lies_below(other, path),
            (Self::Local, Self::Below(_)) | (Self::Below(_), Self::Local) => false,
        }
    }
}

fn lies_below(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether `rules` let `source` be a root; without rules everything may be.
pub(crate) fn allow(rules: Option<&BTreeSet<ImageRule>>, source: &ImageSource) -> bool {
    rules.is_none_or(|rules| rules.iter().any(|rule| rule.allows(source)))
}

/// What both allow.
pub(crate) fn narrower(
    one: Option<BTreeSet<ImageRule>>,
    other: Option<BTreeSet<ImageRule>>,
) -> Option<BTreeSet<ImageRule>> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (rules, None) | (None, rules) => return rules,
    };
    let held = |rules: &BTreeSet<ImageRule>, it: &ImageRule| rules.iter().any(|r| r.holds(it));
    let in_both = |it: &&ImageRule| held(&one, it) && held(&other, it);
    Some(one.union(&other).filter(in_both).cloned().collect())
}

/// The rules in words.
pub(crate) fn shown(rules: &[String]) -> String {
    if rules.is_empty() { "none".to_owned() } else { rules.join(", ") }
}
