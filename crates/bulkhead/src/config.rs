//! What is configured, layer over layer, and where each value came from.
//!
//! `built-in < /etc/bulkhead/config.toml < the user's file < the project's file < BULKHEAD_* < flags`.
//! A project's file comes with a repository that an agent may have written, so it may only narrow
//! until somebody has trusted exactly its content.
//!
//! Invariant: only here is the environment read.

mod daemons;
mod defaults;
mod entries;
mod environment;
mod error;
mod file;
mod house;
mod keys;
mod layer;
mod origin;
mod paths;
mod project;
#[cfg(test)]
mod reference;
mod schema;
mod suggest;
mod trust;
mod way_out;
mod widening;

use std::path::{Path, PathBuf};

use bulkhead_policy::Policy;
use bulkhead_spec::{Limits, Network, escape_bytes};

pub(crate) use daemons::surroundings;
pub(crate) use defaults::defaults;
pub(crate) use entries::Entry;
pub(crate) use environment::Environment;
pub(crate) use error::ConfigError;
pub(crate) use file::{Links, Source, shown};
pub(crate) use keys::{KEYS, network, pull, value_of};
pub(crate) use layer::{Choice, Deadline, Layer, RuntimeName, Sourced};
pub(crate) use origin::Origin;
pub(crate) use paths::{MACHINE_FILE, Paths, Who};
pub(crate) use project::{FILE as PROJECT_FILE, Project, find as find_project};
pub(crate) use schema::schema;
pub(crate) use suggest::nearest;
pub(crate) use trust::{Digest, Revoked, TrustStore};
pub(crate) use way_out::{Observed, Said};

/// Everything that was configured, but for flags.
pub(crate) struct Config {
    /// The caller's variables.
    pub(crate) environment: Environment,
    /// Where Bulkhead keeps its files.
    pub(crate) paths: Paths,
    /// All layers, stacked.
    pub(crate) layer: Layer,
    /// What the machine offers where nobody said.
    pub(crate) defaults: Limits,
    /// The file of the project, if it has one.
    pub(crate) project: Option<Project>,
    /// What looks like a mistake and is none for sure.
    pub(crate) warnings: Vec<String>,
}

/// Where the files are.
pub(crate) struct Sources {
    /// The machine's.
    pub(crate) machine: PathBuf,
    /// The project's.
    pub(crate) project: ProjectFrom,
}

/// Where the project's file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProjectFrom {
    /// In the directory that is worked on, or above.
    Workspace(PathBuf),
    /// Where the user says, and so it has the user's word.
    Named(PathBuf),
    /// Nowhere.
    Absent,
}

impl Sources {
    /// The files that belong to `project`; a variable can name another file of the project.
    pub(crate) fn of(project: ProjectFrom, environment: &Environment) -> Self {
        let named = environment.get("BULKHEAD_CONFIG").map(PathBuf::from);
        let project = match (project, named) {
            (ProjectFrom::Named(path), _) | (_, Some(path)) => ProjectFrom::Named(path),
            (project @ (ProjectFrom::Workspace(_) | ProjectFrom::Absent), None) => project,
        };
        Self { machine: PathBuf::from(MACHINE_FILE), project }
    }
}

impl Config {
    /// Reads all layers.
    pub(crate) fn load(
        environment: Environment,
        sources: &Sources,
    ) -> Result<Self, ConfigError> {
        let paths = Paths::find(&environment, Who::current());
        let machine = read(&sources.machine, Links::Followed)?;
        let user = match &paths.user_file {
            Some(path) => read(path, Links::Followed)?,
            None => Layer::default(),
        };
        let below = user.over(machine);
        let defaults = defaults();
        let (layer, project) = match &sources.project {
            ProjectFrom::Absent => (below, None),
            ProjectFrom::Named(path) => {
                let named = Source::read(path, Links::Followed)?;
                let named = named.ok_or_else(|| ConfigError::absent(path))?;
                (named.layer()?.over(below), None)
            }
            ProjectFrom::Workspace(dir) => {
                match find_project(dir, environment.home().as_deref())? {
                    None => (below, None),
                    Some(source) => {
                        let layer = source.layer()?;
                        let project = Project::judge(source, &layer, &below, &defaults);
                        (layer.over(below), Some(project))
                    }
                }
            }
        };
        let layer = variables(&environment)?.over(layer);
        let warnings = misspelt(&environment);
        Ok(Self { environment, paths, layer, defaults, project, warnings })
    }

    /// Refuses a project's file that widens and that nobody has trusted.
    pub(crate) fn check_trust(&self) -> Result<(), ConfigError> {
        match &self.project {
            Some(project) => project.check(&self.paths),
            None => Ok(()),
        }
    }

    /// The rules that the files lay down, with `defaults` for what nobody says.
    pub(crate) fn policy(&self, defaults: Limits) -> Policy {
        let ceiling = self.layer.ceiling.clone();
        Policy {
            ceiling: ceiling.limits,
            defaults,
            network: ceiling.network.unwrap_or(Network::Open),
            egress: ceiling.egress,
            mountable: ceiling.mounts,
            images: ceiling.images,
            ..Policy::default()
        }
    }
}

fn read(path: &Path, links: Links) -> Result<Layer, ConfigError> {
    Source::read(path, links)?.map_or_else(|| Ok(Layer::default()), |source| source.layer())
}

/// What the `BULKHEAD_*` variables say.
fn variables(environment: &Environment) -> Result<Layer, ConfigError> {
    let mut layer = Layer::default();
    for key in KEYS {
        let Some(name) = key.variable else { continue };
        let Some(value) = environment.get(name) else { continue };
        let text = escape_bytes(value.as_encoded_bytes());
        (key.set)(&mut layer, &text, &Origin::Variable(name))
            .map_err(|why| ConfigError::Variable { name, why })?;
    }
    Ok(layer)
}

/// Variables that are one slip away from one of ours: a limit that is not set is worth a word.
fn misspelt(environment: &Environment) -> Vec<String> {
    let own = ["BULKHEAD_CONFIG", "BULKHEAD_HOME"];
    let known = || KEYS.iter().filter_map(|key| key.variable).chain(own);
    let ours = environment.names().filter_map(|name| name.to_str());
    ours.filter(|name| name.starts_with("BULKHEAD_") && known().all(|it| it != *name))
        .filter_map(|name| Some((name, nearest(name.strip_prefix("BULKHEAD_")?, suffixes())?)))
        .map(|(name, meant)| format!("{name} is not known; did you mean BULKHEAD_{meant}?"))
        .collect()
}

fn suffixes() -> impl Iterator<Item = &'static str> {
    let all = KEYS.iter().filter_map(|key| key.variable);
    all.chain(["BULKHEAD_CONFIG", "BULKHEAD_HOME"])
        .filter_map(|name| name.strip_prefix("BULKHEAD_"))
}
