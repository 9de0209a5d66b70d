//! What one agent needs.

use std::collections::BTreeMap;

use bulkhead_spec::SecretBinding;
use serde::Deserialize;

/// The agents that Bulkhead knows, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("amp", include_str!("built_in/amp.toml")),
    ("claude", include_str!("built_in/claude.toml")),
    ("codex", include_str!("built_in/codex.toml")),
    ("copilot", include_str!("built_in/copilot.toml")),
    ("gemini", include_str!("built_in/gemini.toml")),
    ("opencode", include_str!("built_in/opencode.toml")),
    ("qwen", include_str!("built_in/qwen.toml")),
];

/// What one agent needs, as its file says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Profile {
    /// Its name among people.
    pub(crate) says: String,
    /// The program.
    pub(crate) program: String,
    /// Flags that let it work without asking, before those of the caller.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Flags by which a caller decides that; then the others are left out.
    #[serde(default)]
    pub(crate) unless: Vec<String>,
    /// What it must reach: hosts and groups.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// Its keys, of which those are bound that the caller has; of one name, the first.
    #[serde(default)]
    pub(crate) secrets: Vec<SecretBinding>,
    /// The variable by which a caller says that its model is elsewhere.
    #[serde(default)]
    pub(crate) address: Option<String>,
    /// Variables of the caller's that it gets as they are.
    #[serde(default)]
    pub(crate) pass: Vec<String>,
    /// Variables that it starts with; `~/` is its home inside.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Where it keeps what it wants to find again, below its home.
    #[serde(default)]
    pub(crate) state: Option<String>,
    /// Files that it finds there the first time, by their names.
    #[serde(default)]
    pub(crate) seed: BTreeMap<String, String>,
    /// What it sees there of the caller's own, read-only.
    #[serde(default)]
    pub(crate) shared: Vec<String>,
    /// How to install it.
    #[serde(default)]
    pub(crate) install: Option<String>,
    /// What to do without a key.
    #[serde(default)]
    pub(crate) sign_in: Option<String>,
}

impl Profile {
    /// The agents that are built in, by name.
    #[cfg(test)]
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The one of this name, if it is built in.
    pub(crate) fn built_in(name: &str) -> Option<Result<Self, String>> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(text))
    }

    /// Reads a profile; what would lead out of a home is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let profile: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if profile.program.is_empty() {
            return Err("`program` is empty".to_owned());
        }
        let below = |it: &str| {
            let parts = || it.split('/');
            !it.is_empty() && parts().all(|part| !matches!(part, "" | "." | ".."))
        };
        let mut paths = profile.state.iter().chain(&profile.shared).chain(profile.seed.keys());
        match paths.find(|it| !below(it)) {
            Some(path) => Err(format!(
                "`{}` is not the name of something below a directory",
                bulkhead_spec::escape(path)
            )),
            None => Ok(profile),
        }
    }
}
