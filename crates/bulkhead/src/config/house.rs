//! What a source of configuration says about rooms in general: how many there may be, how many wait,
//! and what of the host is kept from them.

use std::collections::BTreeMap;

use bulkhead_engine::rooms::{Quota, Reserve};
use bulkhead_spec::{Bytes, escape};
use serde_json::{Value, json};

use super::{Origin, layer::Layer};

/// What is said about rooms in general.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct House {
    /// How many rooms wait, made ahead.
    pub(crate) pool: Option<u32>,
    /// How many rooms there may be at once.
    pub(crate) most: Option<u32>,
    /// How many with one value of a label.
    pub(crate) per_label: BTreeMap<String, u32>,
    /// What is kept of the host.
    pub(crate) kept: Kept,
}

/// What is kept of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) memory: Option<Bytes>,
    pub(crate) pids: Option<u64>,
    pub(crate) disk: Option<Bytes>,
    pub(crate) inodes: Option<u64>,
    pub(crate) files: Option<u64>,
}

impl House {
    /// This on top of `below`.
    #[must_use]
    pub(super) fn over(self, below: Self) -> Self {
        let mut per_label = below.per_label;
        per_label.extend(self.per_label);
        let (kept, rest) = (self.kept, below.kept);
        Self {
            pool: self.pool.or(below.pool),
            most: self.most.or(below.most),
            per_label,
            kept: Kept {
                memory: kept.memory.or(rest.memory),
                pids: kept.pids.or(rest.pids),
                disk: kept.disk.or(rest.disk),
                inodes: kept.inodes.or(rest.inodes),
                files: kept.files.or(rest.files),
            },
        }
    }

    /// What no new sandbox may eat into.
    pub(crate) fn reserve(&self) -> Reserve {
        let usual = Reserve::default();
        Reserve {
            memory: self.kept.memory.or(usual.memory),
            pids: self.kept.pids.unwrap_or(usual.pids),
            disk: self.kept.disk.unwrap_or(usual.disk),
            inodes: self.kept.inodes.unwrap_or(usual.inodes),
            files: self.kept.files.unwrap_or(usual.files),
        }
    }

    /// How many rooms there may be at once.
    pub(crate) fn quota(&self) -> Quota {
        Quota { most: self.most, per_label: self.per_label.clone() }
    }

    /// What a project says that is for the owner of the machine to say.
    pub(super) fn said(&self, below: &Self) -> bool {
        *self != Self::default() && self.clone().over(below.clone()) != *below
    }
}

pub(super) fn add_per_label(
    layer: &mut Layer,
    text: &str,
    origin: &Origin,
) -> Result<(), String> {
    let wrong = || format!("`{}` is not LABEL=COUNT, such as `team=10`", escape(text));
    let (name, count) = text.split_once('=').ok_or_else(wrong)?;
    let count = count.trim().parse().map_err(|_| wrong())?;
    if name.trim().is_empty() {
        return Err(wrong());
    }
    layer.house.per_label.insert(name.trim().to_owned(), count);
    layer.origins.insert("rooms.per-label", origin.clone());
    Ok(())
}

pub(super) fn show_per_label(layer: &Layer) -> Option<Value> {
    let all = &layer.house.per_label;
    let texts: Vec<String> =
        all.iter().map(|(name, count)| format!("{name}={count}")).collect();
    (!texts.is_empty()).then(|| json!(texts))
}
