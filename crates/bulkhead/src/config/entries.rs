//! The configuration as a list of values, each with where it came from.

use bulkhead_spec::Limits;
use serde_json::{Value, json};

use super::{Config, Deadline, Layer, Origin, keys::KEYS, way_out::Said};

/// One value that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its key, with its table.
    pub(crate) key: String,
    /// The value.
    pub(crate) value: Value,
    /// Who said it; several for a list that several added to.
    pub(crate) origins: Vec<Origin>,
}

impl Config {
    /// Every value that holds, in the order of the table of keys.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let built_in = built_in(&self.defaults);
        let single = KEYS.iter().filter_map(|key| {
            let entry = |value, origins| Entry { key: key.name.to_owned(), value, origins };
            if let Some(value) = (key.show)(&self.layer) {
                return Some(entry(value, self.origins(key.name)));
            }
            (key.show)(&built_in).map(|value| entry(value, vec![Origin::BuiltIn]))
        });
        let env = self.layer.env.iter().map(|(name, it)| Entry {
            key: format!("env.{}", name.to_string_lossy()),
            value: json!(it.value.to_string_lossy()),
            origins: vec![it.origin.clone()],
        });
        single.chain(env).collect()
    }

    fn origins(&self, key: &str) -> Vec<Origin> {
        let mut origins: Vec<Origin> = match key {
            "require" => self.layer.require.iter().map(|it| it.origin.clone()).collect(),
            "egress.allow" => origins_of(&self.layer.way_out.allow),
            "egress.deny" => origins_of(&self.layer.way_out.deny),
            "egress.secrets" => {
                self.layer.way_out.secrets.iter().map(|it| it.origin.clone()).collect()
            }
            "egress.budgets" => {
                self.layer.way_out.budgets.iter().map(|it| it.origin.clone()).collect()
            }
            "mounts" => self.layer.mounts.iter().map(|it| it.origin.clone()).collect(),
            _ => self.layer.origins.get(key).cloned().into_iter().collect(),
        };
        origins.dedup();
        origins
    }
}

fn origins_of(said: &[Said]) -> Vec<Origin> {
    said.iter().map(|it| it.origin.clone()).collect()
}

/// What holds where nobody said.
fn built_in(defaults: &Limits) -> Layer {
    Layer {
        backend: Some(super::Choice::default()),
        network: Some(bulkhead_spec::Network::default()),
        env_files: Some(bulkhead_spec::EnvFiles::default()),
        pull: Some(bulkhead_spec::Pull::default()),
        timeout: defaults.timeout.map(Deadline::After),
        kill_after: Some(Layer::KILL_AFTER),
        limits: *defaults,
        ..Layer::default()
    }
}
