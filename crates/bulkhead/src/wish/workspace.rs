//! The directory that is worked on.

use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use bulkhead_spec::{Access, EnvFiles, HostPath, Workspace};

use crate::{
    args::run::WorkspaceArgs, codes::Code, commands::current_dir, config::shown,
    failure::Failure,
};

/// What the flags say, else the current directory, read-write.
pub(super) fn find(args: &WorkspaceArgs) -> Result<Option<Workspace>, Failure> {
    if args.no_workspace {
        return Ok(None);
    }
    let (dir, named) = if let Some(text) = &args.workspace {
        let (dir, named) = split(text);
        (look_up(&dir)?, named)
    } else {
        // The kernel tells it without links.
        let here = current_dir()?;
        (usable(here.clone(), &here)?, Access::ReadWrite)
    };
    let access = if args.read_only { Access::ReadOnly } else { named };
    Ok(Some(Workspace { dir, access, env_files: EnvFiles::default(), unprotected: Vec::new() }))
}

/// `DIR[:ro|:rw|:private]`.
fn split(text: &OsStr) -> (PathBuf, Access) {
    let bytes = text.as_bytes();
    let modes = [
        (&b":ro"[..], Access::ReadOnly),
        (b":rw", Access::ReadWrite),
        (b":private", Access::Private),
    ];
    let found = modes.into_iter().find_map(|(end, it)| Some((bytes.strip_suffix(end)?, it)));
    let (dir, access) = found.unwrap_or((bytes, Access::ReadWrite));
    (PathBuf::from(std::ffi::OsString::from_vec(dir.to_vec())), access)
}

fn failed(dir: &Path, why: &str) -> Failure {
    Failure::new(Code::Workspace, format!("cannot work on `{}`", shown(dir)))
        .because(why)
        .hint("change to another directory, or name one with --workspace")
}

fn look_up(dir: &Path) -> Result<HostPath, Failure> {
    let real = bulkhead_linux::paths::real(dir);
    usable(real.map_err(|error| failed(dir, &error.to_string()))?, dir)
}

/// The directory without links, if it is one that we can read; `named` is what somebody called it.
fn usable(real: PathBuf, named: &Path) -> Result<HostPath, Failure> {
    if !real.is_dir() {
        return Err(failed(named, "it is not a directory"));
    }
    let readable = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(&real, readable).map_err(|errno| failed(named, &errno.to_string()))?;
    HostPath::try_from(real).map_err(|error| failed(named, &error.to_string()))
}
