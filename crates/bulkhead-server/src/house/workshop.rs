//! Rooms in which templates are built, and the files that are put into them.

use std::{collections::BTreeMap, io, path::PathBuf, time::Duration};

use bulkhead_engine::rooms::{Client, Record};
use bulkhead_spec::{ImageRef, ImageSource, Pull, Root};

use super::House;
use crate::{
    builds::{Done, Recipe},
    e2b::OWN,
    random,
    templates::Version,
};

/// The label of a room in which a template is built.
const BUILD: &str = "bulkhead.build";

/// A room in which a template is built.
pub(crate) struct Workshop {
    pub(crate) id: String,
    pub(crate) client: Client,
    /// Variables of what it begins with.
    pub(crate) env: BTreeMap<String, String>,
    /// Where its first step begins, if that was said by one before.
    pub(crate) dir: Option<String>,
}

/// The template that a build begins with, if it is one that somebody made.
fn named(recipe: &Recipe) -> Option<&str> {
    let template = recipe.from_template.as_deref().filter(|it| !OWN.contains(it));
    template.filter(|_| recipe.from_image.is_none())
}

/// Whether the room of `record` is one in which a template is built.
pub(super) fn is_workshop(record: &Record) -> bool {
    record.labels.contains_key(BUILD)
}

impl House {
    /// What a build of `recipe` begins with, so that two that begin alike say the same.
    pub(crate) fn origin_of(&self, recipe: &Recipe) -> Result<String, String> {
        let own = serde_json::to_string(&self.base.spec).map_err(|error| error.to_string())?;
        let Some(template) = named(recipe) else { return Ok(own) };
        let found = self.templates.version(template).map_err(|error| error.to_string())?;
        Ok(found.map_or(own, |it| it.checkpoint))
    }

    /// A room in which `recipe` is built, which begins where a step ended if one is `done`.
    pub(crate) async fn workshop(
        &self,
        recipe: &Recipe,
        done: Option<&Done>,
    ) -> Result<Workshop, String> {
        let id = format!("b{}", random::word(20).map_err(|error| error.to_string())?);
        let mut record = self.base.record(&id, self.base.spec.clone());
        record.labels.insert(BUILD.to_owned(), String::new());
        let (mut env, mut dir) = (BTreeMap::new(), None);
        if let Some(done) = done {
            let version = Version::new(String::new(), done.checkpoint.clone());
            self.begin_with(&version, &mut record).map_err(|error| error.to_string())?;
            (env, dir) = (done.env.clone(), Some(done.dir.clone()));
        } else if let Some(image) = &recipe.from_image {
            // The names by which clients mean what every server has.
            if !matches!(image.as_str(), "e2bdev/base" | "e2bdev/base:latest" | "base") {
                // A client names no file of this host.
                let reference = image.parse().map_err(|error| format!("fromImage: {error}"))?;
                let source = ImageSource::Registry(reference);
                record.spec.root = Root::Image(ImageRef { source, pull: Pull::default() });
            }
        } else if let Some(template) = named(recipe) {
            let found = self.templates.version(template).map_err(|error| error.to_string())?;
            let found = found.ok_or_else(|| format!("template '{template}' not found"))?;
            self.begin_with(&found, &mut record).map_err(|error| error.to_string())?;
            env = found.env;
        }
        self.launch(&record).await.map_err(|error| error.to_string())?;
        Ok(Workshop { client: Client::new(self.journal.socket(&id)), id, env, dir })
    }

    /// Ends a room in which something was built.
    pub(crate) async fn close_workshop(&self, id: &str, client: &Client) {
        let ended = client.end(Duration::ZERO).await.map_err(io::Error::other);
        let gone = ended.and_then(|()| self.journal.forget(id).map_err(io::Error::other));
        if let Err(error) = gone {
            tracing::warn!(%error, id, "a room in which a template was built is left");
        }
    }

    /// Where the archive of that hash is, if it is one.
    pub(crate) fn archive(&self, hash: &str) -> Option<PathBuf> {
        let fine = hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
        fine.then(|| self.base.state.join("files").join(hash.to_ascii_lowercase()))
    }

    /// What must be in an address at which the archive of that hash may be put.
    pub(crate) fn upload_token(&self, hash: &str) -> String {
        crate::keys::hash(&format!("{}:{hash}", self.seal))
    }
}
