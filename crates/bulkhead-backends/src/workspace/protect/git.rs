//! The git directory of a workspace, wherever it is.
//!
//! A git directory names programs to run (hooks, `core.fsmonitor`, filters, `core.sshCommand`), so
//! whoever writes it runs code the next time that the host's user types `git status`. Objects, refs
//! and the index stay writable: committing works inside.

use std::{
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use bulkhead_linux::listing::entries;
use bulkhead_policy::GIT_TRIGGERS;
use bulkhead_spec::{Access, Workspace};
use rustix::fs::FileType;

use super::{Found, How, Names, Protection, protect as protect_path};
use crate::{
    BackendError,
    workspace::{
        share::{looked, path_of, share},
        stand_in,
    },
};

/// How deep git directories of submodules are looked for; their names may contain slashes.
const DEPTH: usize = 8;

pub(super) fn protect(
    workspace: &Workspace,
    names: &Names,
    found: &mut Found,
) -> Result<(), BackendError> {
    let writable = workspace.access == Access::ReadWrite;
    let dir = workspace.dir.as_path();
    let pointer = dir.join(".git");
    if names.lack(".git") {
        let how = How::absent(&pointer);
        found.protections.extend(writable.then_some(Protection { path: pointer, how }));
        return Ok(());
    }
    match looked(&pointer).map(|it| it.kind) {
        Ok(FileType::Directory) if writable && !stand_in::is_one(&pointer) => {
            protect_dir(dir, &pointer, How::Pin, found)
        }
        Ok(FileType::RegularFile) => {
            if writable {
                protect_path(dir, Path::new(".git"), &mut found.protections)?;
            }
            linked(dir, &pointer, workspace.access, found)
        }
        Err(_) if writable => protect_path(dir, Path::new(".git"), &mut found.protections),
        Ok(FileType::Directory | FileType::Symlink) if writable => {
            protect_path(dir, Path::new(".git"), &mut found.protections)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Protects one git directory, and those of the submodules within.
fn protect_dir(
    workspace: &Path,
    dir: &Path,
    how: How,
    found: &mut Found,
) -> Result<(), BackendError> {
    found.protections.push(Protection { path: dir.to_owned(), how });
    for trigger in GIT_TRIGGERS {
        protect_path(dir, Path::new(trigger), &mut found.protections)?;
    }
    // No new submodule can be made: `git submodule update` takes a git directory that is there for
    // its own. Those that are there work as before.
    protect_path(dir, Path::new("modules"), &mut found.protections)?;
    submodules(workspace, &dir.join("modules"), DEPTH, found)?;
    // Other worktrees have their git directories here, and whoever works in one of them would run
    // what another `commondir` leads to. Where there is none, none can be led astray.
    let worktrees = dir.join("worktrees");
    if looked(&worktrees).is_ok() {
        protect_path(dir, Path::new("worktrees"), &mut found.protections)?;
    }
    Ok(())
}

fn submodules(
    workspace: &Path,
    dir: &Path,
    depth: usize,
    found: &mut Found,
) -> Result<(), BackendError> {
    let Ok(entries) = entries(dir) else { return Ok(()) };
    for entry in entries.filter(|it| it.kind == FileType::Directory) {
        let path = entry.path(dir);
        if path.join("HEAD").is_file() {
            protect_dir(workspace, &path, How::Reopen, found)?;
            protect_pointer(workspace, &path, found)?;
        } else if 0 < depth {
            submodules(workspace, &path, depth - 1, found)?;
        }
    }
    Ok(())
}

/// Protects the file that leads from the files of a submodule to its git directory `dir`: git
/// follows it when it is asked about the repository that the submodule is part of.
fn protect_pointer(
    workspace: &Path,
    dir: &Path,
    found: &mut Found,
) -> Result<(), BackendError> {
    for files in work_trees(dir) {
        let Ok(below) = files.strip_prefix(workspace) else { continue };
        let pointer = below.join(".git");
        if looked(&workspace.join(&pointer)).is_ok_and(|it| it.kind == FileType::RegularFile) {
            protect_path(workspace, &pointer, &mut found.protections)?;
        }
    }
    Ok(())
}

/// A worktree or a submodule: `.git` is a file that says where the git directory is.
fn linked(
    workspace: &Path,
    pointer: &Path,
    access: Access,
    found: &mut Found,
) -> Result<(), BackendError> {
    let Some(dir) = read_path(pointer, b"gitdir:", workspace) else { return Ok(()) };
    // Only a git directory that names this workspace as its own is shared: a pointer alone, which
    // may have come with the project, proves nothing.
    let worktree = read_path(&dir.join("gitdir"), b"", &dir).as_deref() == Some(pointer);
    let common = match read_path(&dir.join("commondir"), b"", &dir) {
        Some(common) if worktree => common,
        None if is_submodule(&dir, workspace) => dir.clone(),
        Some(_) | None => return Ok(()),
    };
    if common.starts_with(workspace) {
        return Ok(());
    }
    found.shares.push(share(&common, &common, access)?);
    if access != Access::ReadWrite {
        return Ok(());
    }
    protect_dir(workspace, &common, How::Pin, found)?;
    if worktree {
        found.protections.push(Protection { path: dir.clone(), how: How::Reopen });
        for name in ["commondir", "config.worktree", "gitdir"] {
            protect_path(&dir, Path::new(name), &mut found.protections)?;
        }
    }
    Ok(())
}

/// Whether the configuration in `dir` says that its work tree is `workspace`.
fn is_submodule(dir: &Path, workspace: &Path) -> bool {
    work_trees(dir).iter().any(|it| it == workspace)
}

/// Where the configuration in `dir` says that its files are.
fn work_trees(dir: &Path) -> Vec<PathBuf> {
    let config = read(&dir.join("config")).unwrap_or_default();
    let lines = config.split(|it| *it == b'\n');
    let value = |line: &[u8]| {
        let (name, value) = split_once(line, b'=')?;
        let wanted = name.trim_ascii().eq_ignore_ascii_case(b"worktree");
        wanted.then(|| value.trim_ascii().to_vec())
    };
    lines.filter_map(value).filter_map(|it| climbed(dir, &path_of(it))).collect()
}

fn split_once(line: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = line.iter().position(|it| *it == at)?;
    Some((line.get(..position)?, line.get(position + 1..)?))
}

/// The path that the first line of `file` holds after `prefix`, seen from `base`.
fn read_path(file: &Path, prefix: &[u8], base: &Path) -> Option<PathBuf> {
    let content = read(file)?;
    let line = content.split(|it| *it == b'\n').next()?.strip_prefix(prefix)?;
    climbed(base, &path_of(line.trim_ascii().to_vec()))
}

fn read(file: &Path) -> Option<Vec<u8>> {
    if looked(file).ok()?.kind != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::open(file).ok()?.take(64 * 1024).read_to_end(&mut content).ok()?;
    Some(content)
}

/// `path` seen from `base`, without `.` and `..`.
fn climbed(base: &Path, path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    Some(out)
}
