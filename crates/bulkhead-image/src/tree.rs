//! What a project's directory holds, as far as it says what the project needs.
//!
//! Invariant: no link is followed and no file outside of the directory is read, so that a project
//! says nothing about the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// How deep a project is looked at: `services/payments/api/go.mod` and a bit.
const DEPTH: usize = 6;
/// More names than that are somebody's home, not a project.
const MOST_NAMES: usize = 50_000;
/// No manifest is longer; lock files come close.
const MOST_BYTES: u64 = 16 << 20;
/// What a look for `import "C"` reads of one file.
const MOST_OF_GO: u64 = 64 << 10;

/// Directories that tools fill, and that say nothing about what the project asks for.
const SKIPPED: &[&str] = &[
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    "out",
    "venv",
    "__pycache__",
    "site-packages",
    "testdata",
    "fixtures",
    "bazel-bin",
    "bazel-out",
];

/// Files that are read; all others only have a name.
const READ: &[&str] = &[
    "go.mod",
    "go.sum",
    "go.work",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    ".nvmrc",
    ".node-version",
    "pyproject.toml",
    ".python-version",
    "uv.lock",
    "poetry.lock",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain",
    "rust-toolchain.toml",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "gradle-wrapper.properties",
    ".java-version",
    ".tool-versions",
    "setup.py",
    "setup.cfg",
];

/// The names in a directory, and the text of those files that describe a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    names: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    /// Go files that need a C compiler.
    with_c: BTreeSet<String>,
}

impl Tree {
    /// Looks at `dir`.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.walk(dir, "", DEPTH)?;
        Ok(tree)
    }

    /// A tree of files and what they say.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.names.insert(path.to_owned());
            tree.note(path, text);
        }
        tree
    }

    /// Whether there is a file at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.names.contains(path)
    }

    /// What the manifest at `path` says.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All files, by path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The first Go file in or below `dir` that imports C.
    pub(crate) fn imports_c(&self, dir: &str) -> Option<&str> {
        self.with_c.iter().map(String::as_str).find(|it| below(it, dir).is_some())
    }

    /// The directory `dir` as a tree of its own.
    pub(crate) fn sub(&self, dir: &str) -> Self {
        let moved = |path: &String| below(path, dir).map(str::to_owned);
        Self {
            names: self.names.iter().filter_map(moved).collect(),
            texts: self
                .texts
                .iter()
                .filter_map(|(path, text)| Some((moved(path)?, text.clone())))
                .collect(),
            with_c: self.with_c.iter().filter_map(moved).collect(),
        }
    }

    fn walk(&mut self, dir: &Path, prefix: &str, depth: usize) -> io::Result<()> {
        let mut entries: Vec<fs::DirEntry> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // A name that is no text is none that any tool of these languages looks for.
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && depth > 0 && is_looked_into(&name) {
                self.walk(&entry.path(), &format!("{path}/"), depth - 1)?;
            } else if kind.is_file() {
                self.file(&entry.path(), &path, &name)?;
            }
            if self.names.len() > MOST_NAMES {
                let why = format!("it holds more than {MOST_NAMES} files");
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }

    fn file(&mut self, at: &Path, path: &str, name: &str) -> io::Result<()> {
        let most = if is_read(name) {
            Some(MOST_BYTES)
        } else {
            has_extension(name, "go").then_some(MOST_OF_GO)
        };
        self.names.insert(path.to_owned());
        if let Some(most) = most {
            let text = read(at, most)?;
            self.note(path, &text);
        }
        Ok(())
    }

    fn note(&mut self, path: &str, text: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if has_extension(name, "go") {
            if text.lines().any(|it| matches!(it.trim(), "import \"C\"" | "\"C\"")) {
                self.with_c.insert(path.to_owned());
            }
        } else if is_read(name) {
            self.texts.insert(path.to_owned(), text.to_owned());
        }
    }
}

/// `path` as seen from `dir`, if it is below it.
fn below<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    if dir.is_empty() {
        return Some(path);
    }
    path.strip_prefix(dir)?.strip_prefix('/')
}

fn is_read(name: &str) -> bool {
    READ.contains(&name) || is_requirements(name)
}

/// Whether `name` is a list of requirements for pip.
pub(crate) fn is_requirements(name: &str) -> bool {
    has_extension(name, "txt")
        && (name.contains("requirements") || name.contains("constraints"))
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == extension)
}

fn is_looked_into(name: &str) -> bool {
    !name.starts_with('.') && !SKIPPED.contains(&name)
}

/// What is read is what was listed: a link that took its place meanwhile is not followed.
fn read(path: &Path, most: u64) -> io::Result<String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
