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
    let (dir, named) = match &args.workspace {
        Some(text) => split(text),
        None => (current_dir()?, Access::ReadWrite),
    };
    let access = if args.read_only { Access::ReadOnly } else { named };
    let dir = look_up(&dir)?;
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

fn look_up(dir: &Path) -> Result<HostPath, Failure> {
    let failed = |why: String| {
        let what = format!("cannot work on `{}`", shown(dir));
        Failure::new(Code::Workspace, what)
            .because(why)
            .hint("change to another directory, or name one with --workspace")
    };
    let real = bulkhead_linux::paths::real(dir).map_err(|error| failed(error.to_string()))?;
    if !real.is_dir() {
        return Err(failed("it is not a directory".to_owned()));
    }
    let readable = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(&real, readable).map_err(|errno| failed(errno.to_string()))?;
    HostPath::try_from(real).map_err(|error| failed(error.to_string()))
}
