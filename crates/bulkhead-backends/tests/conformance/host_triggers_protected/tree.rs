//! What a tree of files looks like, before and after.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use libtest_mimic::Failed;

/// Some paths of a directory with all that they hold.
#[derive(PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<PathBuf, Entry>);

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

impl Tree {
    /// Reads `paths` below `dir`; what is absent is left out.
    pub(super) fn read(dir: &Path, paths: &[&str]) -> Result<Self, Failed> {
        let mut tree = Self(BTreeMap::new());
        for path in paths {
            tree.add(&dir.join(path))?;
        }
        Ok(tree)
    }

    fn add(&mut self, path: &Path) -> Result<(), Failed> {
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let content = if found.is_symlink() {
            fs::read_link(path)?.into_os_string().into_encoded_bytes()
        } else if found.is_dir() {
            Vec::new()
        } else {
            fs::read(path)?
        };
        self.0.insert(path.to_owned(), Entry { mode: found.mode(), content });
        if found.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// The first thing that is not in `after` as it is here.
    pub(super) fn difference(&self, after: &Self) -> Option<String> {
        let differs = |path: &&PathBuf| self.0.get(*path) != after.0.get(*path);
        let path = self.0.keys().chain(after.0.keys()).find(differs)?;
        let (was, is) = (self.0.get(path), after.0.get(path));
        Some(format!("{} was {was:?} and is {is:?}", path.display()))
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A file that a user would have, and the directories on the way.
pub(super) fn file(path: &Path) -> Result<(), Failed> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, "the user's own")?)
}

/// What git takes for a repository.
pub(super) fn git_dir(dir: &Path) -> Result<(), Failed> {
    for name in ["objects", "refs/heads", "hooks", "info"] {
        fs::create_dir_all(dir.join(name))?;
    }
    fs::write(dir.join("HEAD"), "ref: refs/heads/main\n")?;
    file(&dir.join("config"))?;
    file(&dir.join("hooks/pre-push"))?;
    file(&dir.join("info/exclude"))
}

/// Makes `files` a worktree of the repository whose git directory is `main`; returns the worktree's
/// own git directory.
pub(super) fn worktree(main: &Path, name: &str, files: &Path) -> Result<PathBuf, Failed> {
    let own = main.join("worktrees").join(name);
    let pointer = files.join(".git");
    fs::create_dir_all(&own)?;
    fs::write(own.join("HEAD"), format!("ref: refs/heads/{name}\n"))?;
    fs::write(own.join("commondir"), "../..\n")?;
    fs::write(own.join("gitdir"), format!("{}\n", pointer.display()))?;
    fs::write(&pointer, format!("gitdir: {}\n", own.display()))?;
    Ok(own)
}
