//! What rooms can begin with: snapshots of rooms, and templates that were built.
//!
//! Invariant: a version is written down when its checkpoint is, and a checkpoint that no version
//! names any more is removed.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use serde::{Deserialize, Serialize};

use crate::{clock, locked::locked, private, random};

/// The tag of whoever names none.
pub(crate) const DEFAULT: &str = "default";

/// Something that rooms can begin with, in several versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    /// The versions, by tag.
    pub(crate) tags: BTreeMap<String, Version>,
    /// The room that it is a snapshot of, if it is one.
    pub(crate) snapshot_of: Option<String>,
}

/// One version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// What made it.
    pub(crate) build: String,
    /// The disk that it begins with.
    pub(crate) checkpoint: String,
    /// Microseconds since 1970.
    pub(crate) created: u64,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// What is started in every room.
    #[serde(default)]
    pub(crate) start: Option<String>,
    /// Where that is started.
    #[serde(default)]
    pub(crate) dir: Option<String>,
}

/// All of them, in a file.
#[derive(Debug)]
pub(crate) struct Templates {
    file: PathBuf,
    /// Changes take turns.
    turn: Mutex<()>,
}

impl Template {
    /// The names by which a version is asked for.
    pub(crate) fn called(&self, tag: &str) -> String {
        format!("{}:{tag}", self.name.as_ref().unwrap_or(&self.id))
    }

    fn is(&self, text: &str) -> bool {
        self.id == text || self.name.as_deref() == Some(text)
    }
}

impl Version {
    /// One that was made just now.
    pub(crate) fn new(build: String, checkpoint: String) -> Self {
        let (env, start, dir) = (BTreeMap::new(), None, None);
        Self { build, checkpoint, created: clock::micros(), env, start, dir }
    }
}

impl Templates {
    pub(crate) fn at(file: &Path) -> Self {
        Self { file: file.to_owned(), turn: Mutex::new(()) }
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> io::Result<Vec<Template>> {
        private::read_json(&self.file)
    }

    /// The template that `text` means, an id or a name, with or without a tag.
    pub(crate) fn find(&self, text: &str) -> io::Result<Option<Template>> {
        let (name, _) = split(text);
        Ok(self.list()?.into_iter().find(|it| it.is(name)))
    }

    /// The version that `text` means.
    pub(crate) fn version(&self, text: &str) -> io::Result<Option<Version>> {
        let (_, tag) = split(text);
        Ok(self.find(text)?.and_then(|mut it| it.tags.remove(tag.unwrap_or(DEFAULT))))
    }

    /// The id of the template called `name`, which is a new one if there is none.
    pub(crate) fn reserve(&self, name: &str) -> io::Result<String> {
        match self.find(name)? {
            Some(found) => Ok(found.id),
            None => Ok(format!("t{}", random::word(19)?)),
        }
    }

    /// Writes a version down under its tags. Returns the checkpoints that nobody names any more.
    pub(crate) fn put(
        &self,
        template: &Template,
        tags: &[String],
        version: &Version,
    ) -> io::Result<Vec<String>> {
        self.change(|all| {
            if !all.iter().any(|it| it.id == template.id) {
                all.push(Template { tags: BTreeMap::new(), ..template.clone() });
            }
            for kept in all.iter_mut().filter(|it| it.id == template.id) {
                let fresh = tags.iter().map(|it| (it.clone(), version.clone()));
                kept.tags.extend(fresh);
            }
        })
    }

    /// Removes what `text` means: one tag, or the template if there is no other. Returns the
    /// checkpoints that nobody names any more; `None` where there was nothing.
    pub(crate) fn remove(&self, text: &str) -> io::Result<Option<Vec<String>>> {
        let (name, tag) = split(text);
        let Some(found) = self.find(text)? else { return Ok(None) };
        if tag.is_some_and(|it| !found.tags.contains_key(it)) {
            return Ok(None);
        }
        self.change(|all| {
            for kept in all.iter_mut().filter(|it| it.is(name)) {
                match tag {
                    Some(tag) => drop(kept.tags.remove(tag)),
                    None => kept.tags.clear(),
                }
            }
            all.retain(|it| !it.tags.is_empty());
        })
        .map(Some)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Template>)) -> io::Result<Vec<String>> {
        let _turn: MutexGuard<'_, ()> = locked(&self.turn);
        let mut all = self.list()?;
        let before = checkpoints(&all);
        change(&mut all);
        private::write_json(&self.file, &all)?;
        let after = checkpoints(&all);
        Ok(before.into_iter().filter(|it| !after.contains(it)).collect())
    }
}

fn checkpoints(all: &[Template]) -> Vec<String> {
    all.iter().flat_map(|it| it.tags.values()).map(|it| it.checkpoint.clone()).collect()
}

/// A name and its tag.
fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(name, tag)| (name, Some(tag)))
}

/// Whether `name` can be the name of a template.
pub(crate) fn is_name(name: &str) -> bool {
    let fine = |it: u8| {
        it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'-' | b'_' | b'/')
    };
    !name.is_empty() && name.len() <= 128 && name.bytes().all(fine)
}

/// Whether `tag` can be one.
pub(crate) fn is_tag(tag: &str) -> bool {
    let fine = |it: u8| {
        it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'-' | b'_' | b'.')
    };
    !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(fine)
}

/// Something unique in the form that clients call a UUID.
pub(crate) fn uuid() -> io::Result<String> {
    let digits: Vec<char> = random::token()?.chars().collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().iter();
    let groups = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let groups = groups.map(|(from, to)| part(from, to).collect::<String>());
    Ok(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(id: &str, name: &str) -> Template {
        let (id, name) = (id.to_owned(), Some(name.to_owned()));
        Template { id, name, tags: BTreeMap::new(), snapshot_of: None }
    }

    fn version(checkpoint: &str) -> Version {
        Version::new(uuid().unwrap(), checkpoint.to_owned())
    }

    #[test]
    fn versions_are_found_by_id_name_and_tag_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let templates = Templates::at(&dir.path().join("templates.json"));
        let mine = template("t1", "team/mine");
        let both = [DEFAULT.to_owned(), "v1".to_owned()];
        assert!(templates.put(&mine, &both, &version("c1")).unwrap().is_empty());
        for text in ["t1", "t1:v1", "team/mine", "team/mine:default"] {
            assert_eq!(templates.version(text).unwrap().unwrap().checkpoint, "c1", "{text}");
        }
        assert!(templates.version("team/mine:v2").unwrap().is_none());
        assert_eq!(templates.reserve("team/mine").unwrap(), "t1");
        // The old one is still named by a tag.
        let default = [DEFAULT.to_owned()];
        assert!(templates.put(&mine, &default, &version("c2")).unwrap().is_empty());
        assert_eq!(templates.remove("t1:v1").unwrap().unwrap(), ["c1"]);
        assert!(templates.remove("t1:v1").unwrap().is_none());
        assert_eq!(templates.put(&mine, &default, &version("c3")).unwrap(), ["c2"]);
        assert_eq!(templates.remove("team/mine").unwrap().unwrap(), ["c3"]);
        assert!(templates.list().unwrap().is_empty());
    }

    #[test]
    fn names_and_tags_are_what_they_may_be() {
        assert!(is_name("team/my-template_2") && is_tag("v1.2-rc_1"));
        for odd in ["", "Upper", "a b", "a:b", "../x\n"] {
            assert!(!is_name(odd) || odd == "../x", "{odd}");
            assert!(!is_tag(odd), "{odd}");
        }
        let id = uuid().unwrap();
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }
}
