//! What a project is written in and what it needs, by its own files.
//!
//! Invariant: nothing of the host goes in: the same files give the same answer everywhere.

mod go;
mod java;
mod language;
mod node;
mod python;
mod rust;

use std::collections::BTreeSet;

use language::Wanted;
pub(crate) use language::{Flavour, Table};
pub use language::{Language, Pinned};

use crate::tree::Tree;

/// One thing to build an image for: a directory with a manifest of one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Where it is below the directory that was looked at; empty for that one itself.
    pub dir: String,
    /// What it is written in.
    pub language: Language,
    /// Which release of the language, and who says so.
    pub release: Pinned,
    /// Why it needs Debian; an Alpine image does where nothing says so.
    pub glibc: Option<String>,
    /// An image other than the language's own, with `{line}` for the release's.
    pub(crate) base: Option<&'static str>,
    /// How its dependencies are fetched.
    pub fetch: Fetch,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// How dependencies come into an image before the source does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// The manifests and lock files, each to where it is in the project.
    pub copy: Vec<String>,
    /// What is run then, each an argument list.
    pub run: Vec<Vec<String>>,
    /// Where the tool keeps what it downloads; a builder may keep it between builds.
    pub cache: Option<&'static str>,
    /// What of that belongs into the image: from, and to.
    pub keep: Vec<(&'static str, &'static str)>,
}

/// What a language's own file makes of a directory.
struct Found {
    wanted: Wanted,
    glibc: Option<String>,
    base: Option<&'static str>,
    fetch: Fetch,
    notes: Vec<String>,
}

/// All projects in `tree`. Members of a workspace belong to its root.
pub fn detect(tree: &Tree) -> Vec<Project> {
    let mut dirs: BTreeSet<&str> = BTreeSet::new();
    for path in tree.names() {
        dirs.insert(path.rsplit_once('/').map_or("", |(dir, _)| dir));
    }
    let mut found: Vec<Project> = Vec::new();
    for dir in dirs {
        for language in Language::ALL {
            if !language.is_at(tree, dir) || is_member(&found, tree, dir, language) {
                continue;
            }
            // One image per directory: the language that is built, not the one of its tools.
            if let Some(first) = found.iter_mut().find(|it| it.dir == dir) {
                first.notes.push(format!(
                    "also found {language} there; `--language {language}` writes for that"
                ));
                continue;
            }
            found.push(inspect(tree, dir, language));
        }
    }
    found
}

/// The project in `dir`, read as one of `language`.
pub fn inspect(tree: &Tree, dir: &str, language: Language) -> Project {
    let own = tree.sub(dir);
    let Found { wanted, mut glibc, base, fetch, notes } = match language {
        Language::Go => go::find(&own),
        Language::Rust => rust::find(&own),
        Language::Java => java::find(&own),
        Language::Python => python::find(&own),
        Language::Node => node::find(&own),
    };
    let table = Table::of(language);
    let release = table.pin(&wanted);
    if glibc.is_none() && release.alpine.is_none() {
        glibc = Some(format!("there is no Alpine image of {language} {}", release.version));
    }
    let mut fetch = fetch;
    let (kept, strange): (Vec<String>, Vec<String>) =
        fetch.copy.into_iter().partition(|it| is_plain(it));
    fetch.copy = kept;
    let mut notes = notes;
    notes.extend(strange.iter().map(|it| {
        let name = bulkhead_spec::escape(it);
        format!("`{name}` is left out: its name would mean something else in a Dockerfile")
    }));
    Project { dir: dir.to_owned(), language, release, glibc, base, fetch, notes }
}

/// Whether an enclosing project of the same language counts `dir` among its own.
fn is_member(found: &[Project], tree: &Tree, dir: &str, language: Language) -> bool {
    found.iter().any(|it| {
        it.language == language
            && (it.dir.is_empty() || dir.starts_with(&format!("{}/", it.dir)))
            && language.is_workspace(&tree.sub(&it.dir))
    })
}

/// Names that are themselves in a Dockerfile: no variable, no pattern, no space.
pub(crate) fn is_plain(name: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || "._-/@+".contains(it);
    !name.is_empty() && !name.starts_with(['-', '/']) && name.chars().all(plain)
}

/// `["a", "b"]` of text that is ours.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
