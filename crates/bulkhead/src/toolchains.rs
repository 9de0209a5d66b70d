//! The toolchains of the caller that work inside too.
//!
//! Programs that live under the caller's home and are on the PATH are of no use in a sandbox that
//! hides the home. So exactly their directories are shared, read-only, and their caches as private
//! copies; never the home itself, never a file that holds a credential.
//!
//! Invariant: what is shared comes from the table in `known`, from a link in `~/.local/bin`, or is
//! itself a directory on the PATH outside every home.

mod known;
mod links;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use bulkhead_linux::paths::real;
use bulkhead_spec::{Access, GuestPath, HostPath, Mount};

use crate::config::Environment;

/// Where programs are looked for if the caller's PATH names no directory of the system.
pub(crate) const SYSTEM_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a sandbox with the host's own programs shows of these is its root's business.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Nothing on a PATH there is shared: kernel interfaces, sockets, other people's homes.
const NEVER: [&str; 8] =
    ["/proc", "/sys", "/dev", "/run", "/var/run", "/home", "/root", "/snap"];

/// What the caller's toolchains need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolchains {
    /// Their directories, at their own paths.
    pub(crate) mounts: Vec<Mount>,
    /// PATH, and what tells each toolchain where it is.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Directories on the caller's PATH that are not there inside.
    pub(crate) hidden: Vec<PathBuf>,
}

/// Finds the toolchains on the PATH of `environment`. `seen` are directories that the sandbox
/// sees anyway: the workspace and what the caller shares.
pub(crate) fn discover(environment: &Environment, seen: &[PathBuf]) -> Toolchains {
    let home = environment.home();
    let path = environment.get("PATH").unwrap_or_else(|| OsStr::new(SYSTEM_PATH));
    let mut found = Toolchains::default();
    let real_home = home.as_ref().and_then(|home| real(home).ok());
    let search =
        Search { environment, home: home.as_deref(), real_home, dirs: directories(path) };
    known::share(&search, &mut found);
    if let Some(home) = &home {
        links::share(&search, home, &mut found);
    }
    let mut kept: Vec<PathBuf> = Vec::new();
    for dir in &search.dirs {
        match search.place(dir, seen, &mut found) {
            Place::Inside => kept.push(dir.clone()),
            Place::Outside => found.hidden.push(dir.clone()),
        }
    }
    if !kept.iter().any(|dir| is_system(dir)) {
        kept.extend(std::env::split_paths(SYSTEM_PATH));
    }
    // A directory with a colon cannot have come out of a PATH, so joining does not fail.
    let path = std::env::join_paths(kept).unwrap_or_else(|_| SYSTEM_PATH.into());
    found.env.insert("PATH".into(), path);
    found
}

/// What is known about the caller while its toolchains are looked for.
struct Search<'a> {
    environment: &'a Environment,
    home: Option<&'a Path>,
    /// The home without links.
    real_home: Option<PathBuf>,
    /// The directories on the PATH: absolute, each once.
    dirs: Vec<PathBuf>,
}

/// Whether a directory on the PATH is there inside.
enum Place {
    Inside,
    Outside,
}

impl Search<'_> {
    /// Decides about one directory on the PATH, and shares it if it must be.
    fn place(&self, dir: &Path, seen: &[PathBuf], found: &mut Toolchains) -> Place {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| dir.starts_with(root));
        if is_system(dir) || below(seen) || found.shows(dir) {
            return Place::Inside;
        }
        let Ok(real) = real(dir) else { return Place::Outside };
        let forbidden =
            NEVER.iter().any(|root| real.starts_with(root) || dir.starts_with(root));
        if forbidden
            || self.holds_home(&real)
            || self.home.is_some_and(|home| real.starts_with(home))
        {
            return Place::Outside;
        }
        // Whoever can write to it could put a `git` there.
        let open_to_all =
            real.metadata().map_or(true, |it| !it.is_dir() || it.mode() & 0o002 != 0);
        if open_to_all {
            return Place::Outside;
        }
        match package_of(dir) {
            Some(package) => found.share(&package, Access::ReadOnly),
            None => found.share(dir, Access::ReadOnly),
        }
        if found.shows(dir) { Place::Inside } else { Place::Outside }
    }

    /// Whether `dir` is the home, or the home lies below it.
    fn holds_home(&self, dir: &Path) -> bool {
        let real = self.real_home.as_deref();
        [self.home, real].into_iter().flatten().any(|home| home.starts_with(dir))
    }

    /// Whether some directory on the PATH holds `program`.
    fn has(&self, program: &str) -> bool {
        self.dirs.iter().any(|dir| dir.join(program).exists())
    }

    /// Whether `dir`, or something below it, is on the PATH.
    fn is_on_path(&self, dir: &Path) -> bool {
        self.dirs.iter().any(|it| it.starts_with(dir))
    }
}

impl Toolchains {
    /// Shares what is at `path`, at its own path, if it is there.
    ///
    /// A link is followed here, so that what is mounted is what was looked at.
    fn share(&mut self, path: &Path, access: Access) {
        let Ok(real) = real(path) else { return };
        let (Ok(from), Ok(to)) =
            (HostPath::try_from(real), GuestPath::try_from(path.to_owned()))
        else {
            return;
        };
        if !self.mounts.iter().any(|it| it.to == to) {
            self.mounts.push(Mount { from, to, access });
        }
    }

    fn shows(&self, path: &Path) -> bool {
        self.mounts.iter().any(|it| path.starts_with(it.to.as_path()))
    }
}

/// `/opt/go` for `/opt/go/bin`: a package in `/opt` is one directory with all that it needs.
fn package_of(dir: &Path) -> Option<PathBuf> {
    let first = dir.strip_prefix("/opt").ok()?.components().next()?;
    Some(Path::new("/opt").join(first))
}

fn is_system(dir: &Path) -> bool {
    SYSTEM.iter().any(|root| dir.starts_with(root))
}

/// The directories of a PATH that are absolute and do not climb, each once. A relative one would
/// be searched in whatever directory a program changes to.
fn directories(path: &OsStr) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in std::env::split_paths(path) {
        let Ok(dir) = HostPath::try_from(dir) else { continue };
        let dir = dir.as_path().to_owned();
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

#[cfg(test)]
mod tests;
