//! Hosts that go together, and the presets that are made of them.
//!
//! A group lists what the tool of its name needs to read; where the same hosts also take uploads
//! (a registry, a forge), the name cannot tell, and a rule with a method and a path can.

mod table;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{HostPattern, InvalidRule, Ports, Rule, Sourced, Target, Wire};
use crate::escape;

pub use table::GROUPS;

/// Hosts that go together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// How rules call it.
    pub name: &'static str,
    /// What it is for.
    pub says: &'static str,
    /// Its rules.
    pub hosts: &'static [&'static str],
}

/// A ready-made set of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Nothing but what is allowed by name.
    #[default]
    Locked,
    /// Models, forges and package registries.
    Balanced,
    /// Every public host, on the ports of the web.
    Open,
}

/// A text that names no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a preset: write `locked`, `balanced` or `open`", escape(.0))]
pub struct UnknownPreset(String);

/// The group of that name.
pub fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|it| it.name == name)
}

/// The rules that somebody allows by `text`: those of a group, or the one that it writes out.
pub fn allowing(text: &str, origin: &str) -> Result<Vec<Sourced>, InvalidRule> {
    let rules = denying(text, origin)?;
    rules.iter().try_for_each(|it| it.rule.check_width())?;
    Ok(rules)
}

/// The rules that somebody denies by `text`; denying may be as wide as it likes.
pub fn denying(text: &str, origin: &str) -> Result<Vec<Sourced>, InvalidRule> {
    if let Some(group) = group(text) {
        let origin = format!("group {} ({origin})", group.name);
        return group.hosts.iter().map(|it| sourced(it.parse()?, &origin)).collect();
    }
    let word = text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    if word && !text.is_empty() && text != "localhost" && text.parse::<u64>().is_err() {
        let known = GROUPS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        return Err(InvalidRule::Word { word: text.to_owned(), known });
    }
    Ok(vec![sourced(text.parse()?, origin)?])
}

#[expect(clippy::unnecessary_wraps, reason = "it ends a chain of fallible steps")]
fn sourced(rule: Rule, origin: &str) -> Result<Sourced, InvalidRule> {
    Ok(Sourced { rule, origin: origin.to_owned() })
}

impl Preset {
    /// What it allows.
    pub fn allow(self) -> Vec<Sourced> {
        let origin = format!("preset {self}");
        match self {
            Self::Locked => Vec::new(),
            Self::Balanced => BALANCED
                .iter()
                .filter_map(|name| allowing(name, &origin).ok())
                .flatten()
                .collect(),
            Self::Open => {
                let rule = Rule {
                    target: Target::Names(HostPattern::Any),
                    ports: Ports::Web,
                    wire: Wire::Usual,
                    methods: std::collections::BTreeSet::new(),
                    path: None,
                };
                vec![Sourced { rule, origin }]
            }
        }
    }

    /// What it denies: resolvers over HTTPS, which would carry names past ours.
    pub fn deny(self) -> Vec<Sourced> {
        match self {
            Self::Locked | Self::Balanced => Vec::new(),
            Self::Open => denying("doh", "preset open").unwrap_or_default(),
        }
    }
}

const BALANCED: &[&str] = &[
    "anthropic",
    "openai",
    "google",
    "mistral",
    "openrouter",
    "github",
    "gitlab",
    "npm",
    "pypi",
    "crates",
    "go",
    "maven",
    "rubygems",
    "debian",
    "ubuntu",
    "alpine",
];

impl fmt::Display for Preset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Locked => "locked",
            Self::Balanced => "balanced",
            Self::Open => "open",
        })
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, UnknownPreset> {
        match text {
            "locked" | "deny-all" => Ok(Self::Locked),
            "balanced" => Ok(Self::Balanced),
            "open" | "allow-all" => Ok(Self::Open),
            other => Err(UnknownPreset(other.to_owned())),
        }
    }
}
