//! What an agent keeps from one run to the next: its sessions, what it remembers of a project.
//!
//! It is a directory of its own for each agent and project, so that what was said about one
//! project is not read by whoever works on another. Nothing on the host looks at what is in it.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use bulkhead_linux::paths::real;
use bulkhead_spec::{Access, GuestPath, HostPath, Mount};
use sha2::{Digest as _, Sha256};

use super::{Agent, is_plain, looks_secret};
use crate::{
    codes::Code,
    config::{Environment, Paths, shown},
    failure::Failure,
};

/// The most of a settings file that is looked at; a longer one stays outside.
const MOST: u64 = 1 << 20;

impl Agent {
    /// The directory that it keeps for `project`, seen below `home`, and what it sees there of the
    /// caller's own. It is made if it is not there.
    pub(crate) fn mounts(
        &self,
        paths: &Paths,
        environment: &Environment,
        (home, project): (&Path, Option<&Path>),
    ) -> Result<Vec<Mount>, Failure> {
        let (Some(below), Some(data)) = (&self.profile.state, &paths.data) else {
            return Ok(Vec::new());
        };
        let dir = data.join("agents").join(&self.name).join(key(project));
        let kept = self.keep(&dir).and_then(|()| real(&dir)).map_err(|error| {
            let what = format!("cannot keep the state of {} in `{}`", self.name, shown(&dir));
            Failure::new(Code::System, what).because(error)
        })?;
        let seen = home.join(below);
        let own = environment.home().map(|it| it.join(below));
        let shared = own.iter().flat_map(|own| self.shared(own, &kept, &seen));
        let whole = mount(&kept, &seen, Access::ReadWrite);
        Ok(whole.into_iter().chain(shared).collect())
    }

    /// Makes the directory, with what its agent is to find there. What a sandbox wrote there is not
    /// touched again.
    fn keep(&self, dir: &Path) -> io::Result<()> {
        let Some(above) = dir.parent() else { return Ok(()) };
        private().recursive(true).create(above)?;
        match private().create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.furnish(dir),
        }
    }

    /// Puts into a new directory what its agent begins with, and a place for everything that may be
    /// shared in it.
    fn furnish(&self, dir: &Path) -> io::Result<()> {
        for (name, text) in &self.profile.seed {
            fs::write(dir.join(name), text)?;
        }
        for name in &self.profile.shared {
            let path = dir.join(name);
            match path.extension() {
                // Nothing, in the words of whoever reads it.
                Some(ending) if ending == "json" => fs::write(path, "{}\n")?,
                Some(_) => fs::write(path, "")?,
                // Names of files have an ending, those of directories have none.
                None => private().create(path)?,
            }
        }
        Ok(())
    }

    /// What of `own`, the caller's, is seen at `seen`; in `kept` there must be a place for it.
    fn shared(&self, own: &Path, kept: &Path, seen: &Path) -> Vec<Mount> {
        let names = self.profile.shared.iter().map(Path::new);
        let found = names.filter_map(|name| {
            let from = real(&own.join(name)).ok()?;
            let place = kept.join(name);
            let fits = is_plain(kept, name.as_os_str()) && from.is_dir() == place.is_dir();
            let harmless =
                from.is_dir() || readable(&from).is_some_and(|it| !looks_secret(&it));
            (fits && harmless)
                .then(|| mount(&from, &seen.join(name), Access::ReadOnly))
                .flatten()
        });
        found.collect()
    }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn readable(file: &Path) -> Option<String> {
    let short = file.metadata().is_ok_and(|it| it.is_file() && it.len() <= MOST);
    short.then(|| fs::read_to_string(file).ok()).flatten()
}

fn mount(from: &Path, to: &Path, access: Access) -> Option<Mount> {
    let from = HostPath::try_from(from.to_owned()).ok()?;
    let to = GuestPath::try_from(to.to_owned()).ok()?;
    Some(Mount { from, to, access })
}

/// A name for a project that can be read and that no other has.
fn key(project: Option<&Path>) -> PathBuf {
    let Some(project) = project else { return PathBuf::from("no-workspace") };
    let digest = Sha256::digest(project.as_os_str().as_encoded_bytes());
    let short = digest.iter().take(6).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let name = project.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    let plain = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = name.chars().filter(plain).take(40).collect();
    PathBuf::from(format!("{name}-{short:012x}"))
}
