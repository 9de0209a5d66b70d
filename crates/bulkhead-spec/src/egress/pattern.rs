//! Which names a rule means.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use super::{HostName, InvalidHost};

/// A pattern of host names, compared label by label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// `example.com`: that name and no other.
    Exact(HostName),
    /// `*.example.com`: exactly one label before it.
    OneLabel(HostName),
    /// `**.example.com`: one label before it, or more.
    AnyDepth(HostName),
    /// `*`: every name. Nobody allows this by a rule of their own; the preset `open` does.
    Any,
}

impl HostPattern {
    /// Whether `name` is one of those meant.
    ///
    /// The name of the host itself is meant only by a rule that spells it out.
    pub fn matches(&self, name: &HostName) -> bool {
        if name.is_the_host() {
            return matches!(self, Self::Exact(it) if it == name);
        }
        let above = |base: &HostName| {
            let head = name.as_str().strip_suffix(base.as_str())?;
            head.strip_suffix('.').filter(|it| !it.is_empty())
        };
        match self {
            Self::Exact(it) => it == name,
            Self::OneLabel(base) => above(base).is_some_and(|head| !head.contains('.')),
            Self::AnyDepth(base) => above(base).is_some(),
            Self::Any => true,
        }
    }

    /// The public suffix of which this would allow every name, owned by whomever.
    pub fn public_suffix(&self) -> Option<&str> {
        let base = match self {
            Self::OneLabel(base) | Self::AnyDepth(base) => base.as_str(),
            Self::Exact(_) | Self::Any => return None,
        };
        let suffix = psl::suffix_str(base).unwrap_or(base);
        (suffix == base || !base.contains('.')).then_some(base)
    }
}

impl FromStr for HostPattern {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if let Some(base) = text.strip_prefix("**.") {
            return base.parse().map(Self::AnyDepth);
        }
        match text.strip_prefix("*.") {
            Some(base) => base.parse().map(Self::OneLabel),
            None if text == "*" => Ok(Self::Any),
            None => text.parse().map(Self::Exact),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(out),
            Self::OneLabel(base) => write!(out, "*.{base}"),
            Self::AnyDepth(base) => write!(out, "**.{base}"),
            Self::Any => out.write_str("*"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
