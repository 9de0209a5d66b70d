//! How many rooms there may be at once.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::JournalError;
use crate::rooms::admission::Busy;

/// When it is worth another try.
const RETRY: Duration = Duration::from_secs(5);

/// How many rooms of one user there may be at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// In all.
    pub most: Option<u32>,
    /// With the same value of a label, by its name.
    pub per_label: BTreeMap<String, u32>,
}

impl Quota {
    /// Whether there is something to count for a room with `labels`.
    pub(super) fn counts(&self, labels: &BTreeMap<String, String>) -> bool {
        self.most.is_some() || self.per_label.keys().any(|it| labels.contains_key(it))
    }

    /// Whether there may be one more room, with `labels`, beside those with other labels.
    pub(super) fn check(
        &self,
        labels: &BTreeMap<String, String>,
        beside: &[&BTreeMap<String, String>],
    ) -> Result<(), JournalError> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if let Some(most) = self.most
            && most <= count(beside.len())
        {
            let why = format!("there are as many rooms as `rooms.most` allows: {most}");
            return Err(Busy { why, retry: RETRY }.into());
        }
        for (name, most) in &self.per_label {
            let Some(value) = labels.get(name) else { continue };
            let same = beside.iter().filter(|it| it.get(name) == Some(value)).count();
            if *most <= count(same) {
                let label = bulkhead_spec::escape(&format!("{name}={value}"));
                let why = format!(
                    "the label `{label}` has as many rooms as `rooms.per-label` allows: {most}"
                );
                return Err(Busy { why, retry: RETRY }.into());
            }
        }
        Ok(())
    }
}
