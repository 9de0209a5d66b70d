//! Where Bulkhead keeps its own files.

use std::path::{Path, PathBuf};

use super::Environment;

/// The machine's own layer. It may hold ceilings, so no variable can point elsewhere.
pub(crate) const MACHINE_FILE: &str = "/etc/bulkhead/config.toml";

/// The directories of one user, as far as they can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The user's own configuration file.
    pub(crate) user_file: Option<PathBuf>,
    /// The record of runs and the store of trusted files.
    pub(crate) state: Option<PathBuf>,
    /// What outlives a run and is not a record.
    pub(crate) data: Option<PathBuf>,
    /// What can be made again.
    pub(crate) cache: Option<PathBuf>,
    /// Sockets.
    pub(crate) runtime: Option<PathBuf>,
}

impl Paths {
    /// Finds the directories: `BULKHEAD_HOME`, else those of XDG, else those below the home.
    ///
    /// A service of the system has no home; what root records then goes to `/var`.
    pub(crate) fn find(environment: &Environment, who: Who) -> Self {
        let home = environment.home();
        let below = |rest: &str| home.as_ref().map(|home| home.join(rest));
        let named = |variable: &str, rest: &str, system: &str| {
            let found = environment.dir(variable).or_else(|| below(rest));
            let found = found.map(|dir| dir.join("bulkhead"));
            found.or_else(|| (who == Who::Root).then(|| PathBuf::from(system)))
        };
        let user = environment.dir("XDG_CONFIG_HOME").or_else(|| below(".config"));
        let user_file = user.map(|dir| dir.join("bulkhead/config.toml"));
        if let Some(own) = environment.dir("BULKHEAD_HOME") {
            let part = |name: &str| Some(own.join(name));
            return Self {
                user_file,
                state: part("state"),
                data: part("data"),
                cache: part("cache"),
                runtime: part("run"),
            };
        }
        // All of root's sandboxes claim their user ids in one place, whatever session started them.
        let runtime = match who {
            Who::Root => Some(PathBuf::from("/run/bulkhead")),
            Who::User => environment.dir("XDG_RUNTIME_DIR").map(|dir| dir.join("bulkhead")),
        };
        let state = named("XDG_STATE_HOME", ".local/state", "/var/lib/bulkhead/state");
        Self {
            user_file,
            data: named("XDG_DATA_HOME", ".local/share", "/var/lib/bulkhead/data"),
            cache: named("XDG_CACHE_HOME", ".cache", "/var/cache/bulkhead"),
            runtime: runtime.or_else(|| state.as_ref().map(|dir| dir.join("run"))),
            state,
        }
    }

    /// The file that every run appends its events to.
    pub(crate) fn events(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|dir| dir.join("events.jsonl"))
    }

    /// Where the sockets are by which the rules of running sandboxes are changed.
    pub(crate) fn rules(&self) -> Option<PathBuf> {
        self.runtime.as_ref().map(|dir| dir.join("rules"))
    }

    /// Where private networks of sandboxes are.
    pub(crate) fn networks(&self) -> Option<PathBuf> {
        self.runtime.as_ref().map(|dir| dir.join("networks"))
    }

    /// The store of trusted project files.
    pub(crate) fn trust(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|dir| dir.join("trust.json"))
    }

    /// Directories whose content decides what a sandbox gets, or tells what it did.
    pub(crate) fn precious(&self) -> impl Iterator<Item = &Path> {
        let user = self.user_file.as_deref().and_then(Path::parent);
        // What is unpacked in the cache is the root of later sandboxes.
        let own =
            [&self.state, &self.data, &self.cache].into_iter().flatten().map(PathBuf::as_path);
        user.into_iter().chain(own)
    }
}

/// Whose files they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The host's administrator.
    Root,
    /// An ordinary user.
    User,
}

impl Who {
    /// Who runs this process.
    pub(crate) fn current() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }
}
