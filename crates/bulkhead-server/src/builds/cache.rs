//! Steps that were done before: a build begins where the last one that was like it had come to.
//!
//! Each step has a key, made of what the build begins with and of every step up to this one. What is
//! kept under it is the disk after the step, as a checkpoint, and what later steps need to know.

use std::{collections::BTreeMap, io, path::Path, path::PathBuf, sync::Mutex};

use serde::{Deserialize, Serialize};

use super::{Recipe, Step};
use crate::{clock, keys, locked::locked, private};

/// The most steps that are kept.
const KEPT: usize = 64;

/// A step that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    key: String,
    /// The disk after it.
    pub(crate) checkpoint: String,
    /// Variables after it.
    pub(crate) env: BTreeMap<String, String>,
    /// Where the next one begins.
    pub(crate) dir: String,
    /// Microseconds since 1970, when it was needed last.
    used: u64,
}

/// The steps that are kept, in a file.
#[derive(Debug)]
pub(crate) struct Cache {
    file: PathBuf,
    /// Changes take turns.
    turn: Mutex<()>,
}

impl Cache {
    pub(crate) fn at(file: &Path) -> Self {
        Self { file: file.to_owned(), turn: Mutex::new(()) }
    }

    /// The last of the steps with these keys that is kept, and how many those are up to it.
    pub(super) fn find(&self, keys: &[String]) -> Option<(usize, Done)> {
        let _turn = locked(&self.turn);
        let mut all: Vec<Done> = private::read_json(&self.file).ok()?;
        let (at, key) = keys
            .iter()
            .enumerate()
            .rev()
            .find(|(_, key)| all.iter().any(|it| it.key == **key))?;
        let found = all.iter_mut().find(|it| it.key == *key)?;
        found.used = clock::micros();
        let found = found.clone();
        if let Err(error) = private::write_json(&self.file, &all) {
            tracing::warn!(%error, "when a step was needed is not noted");
        }
        Some((at + 1, found))
    }

    /// Keeps a step. Returns the checkpoints that are not needed for it any more.
    pub(super) fn put(&self, done: Done) -> io::Result<Vec<String>> {
        let _turn = locked(&self.turn);
        let mut all: Vec<Done> = private::read_json(&self.file)?;
        all.sort_by_key(|it| it.used);
        let same = |it: &Done| it.key == done.key;
        let mut stale: Vec<Done> = all.extract_if(.., |it| same(it)).collect();
        let over = (all.len() + 1).saturating_sub(KEPT);
        stale.extend(all.drain(..over));
        all.push(done);
        private::write_json(&self.file, &all)?;
        Ok(stale.into_iter().map(|it| it.checkpoint).collect())
    }

    /// Forgets a step whose checkpoint is not there.
    pub(super) fn forget(&self, checkpoint: &str) -> io::Result<()> {
        let _turn = locked(&self.turn);
        let mut all: Vec<Done> = private::read_json(&self.file)?;
        all.retain(|it| it.checkpoint != checkpoint);
        private::write_json(&self.file, &all)
    }
}

impl Done {
    /// A step that was done just now.
    pub(super) fn new(
        key: String,
        checkpoint: String,
        (env, dir): (BTreeMap<String, String>, String),
    ) -> Self {
        Self { key, checkpoint, env, dir, used: clock::micros() }
    }
}

/// The keys of the steps of `recipe`, on a server whose rooms begin with `base`; those that may be
/// taken from the cache come first, and so many they are.
pub(super) fn keys_of(recipe: &Recipe, base: &str) -> (Vec<String>, usize) {
    let from = [&recipe.from_image, &recipe.from_template];
    let mut key = keys::hash(&format!("{base}\0{from:?}"));
    let mut all = Vec::new();
    for Step { kind, args, files_hash, .. } in &recipe.steps {
        key = keys::hash(&format!("{key}\0{kind:?}{args:?}{files_hash:?}"));
        all.push(key.clone());
    }
    let forced = recipe.steps.iter().position(|it| it.force == Some(true));
    let usable = if recipe.force == Some(true) { 0 } else { forced.unwrap_or(all.len()) };
    (all, usable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recipe(steps: &serde_json::Value) -> Recipe {
        serde_json::from_value(json!({ "fromTemplate": "base", "steps": steps })).unwrap()
    }

    fn run(line: &str) -> serde_json::Value {
        json!({ "type": "RUN", "args": [line] })
    }

    #[test]
    fn a_key_depends_on_the_base_and_on_all_before() {
        let one = keys_of(&recipe(&json!([run("a"), run("b")])), "x").0;
        let other = keys_of(&recipe(&json!([run("a"), run("c")])), "x").0;
        assert_eq!((one[0] == other[0], one[1] == other[1]), (true, false));
        assert_ne!(keys_of(&recipe(&json!([run("a")])), "y").0[0], one[0]);
        assert_ne!(keys_of(&recipe(&json!([run("b"), run("b")])), "x").0[1], one[1]);
    }

    #[test]
    fn what_is_forced_and_all_after_it_is_done_again() {
        let forced = json!({ "type": "RUN", "args": ["b"], "force": true });
        let (keys, usable) = keys_of(&recipe(&json!([run("a"), forced, run("c")])), "x");
        assert_eq!((keys.len(), usable), (3, 1));
    }

    #[test]
    fn the_furthest_step_is_found_and_the_oldest_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(&dir.path().join("cache.json"));
        let done = |key: &str, used: u64| Done {
            used,
            ..Done::new(key.into(), format!("c-{key}"), (BTreeMap::new(), "/".into()))
        };
        let keys = ["1", "2", "3"].map(str::to_owned);
        assert_eq!(cache.find(&keys), None);
        assert!(cache.put(done("1", 1)).unwrap().is_empty());
        assert!(cache.put(done("2", 2)).unwrap().is_empty());
        assert_eq!(cache.find(&keys).unwrap().0, 2);
        assert_eq!(cache.put(done("2", 3)).unwrap(), ["c-2"]);
        for at in 0..KEPT - 2 {
            assert!(cache.put(done(&format!("x{at}"), 9)).unwrap().is_empty());
        }
        assert_eq!(cache.put(done("last", 9)).unwrap(), ["c-1"]);
        cache.forget("c-2").unwrap();
        assert_eq!(cache.find(&keys), None);
    }
}
