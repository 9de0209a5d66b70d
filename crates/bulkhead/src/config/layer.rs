//! What one source of configuration says, and how two of them stack.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use bulkhead_policy::{EgressCeiling, ImageRule};
use bulkhead_spec::{
    EnvFiles, Guarantee, Guarantees, HostPath, InvalidDuration, Limits, Network, Pull, Span,
};

use super::{Origin, house::House, keys::NOTHING, way_out::WayOut};
use crate::{image::ImageText, share::Share};

/// What one source says. Whatever is absent was not said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// Who builds the sandbox.
    pub(crate) backend: Option<Choice>,
    /// What a container daemon starts it with.
    pub(crate) runtime: Option<RuntimeName>,
    /// What it may talk to.
    pub(crate) network: Option<Network>,
    /// The image that programs run in.
    pub(crate) image: Option<ImageText>,
    /// When a registry is asked for it.
    pub(crate) pull: Option<Pull>,
    /// What becomes of `.env*` files.
    pub(crate) env_files: Option<EnvFiles>,
    /// How long a program may run.
    pub(crate) timeout: Option<Deadline>,
    /// How long it may tidy up.
    pub(crate) kill_after: Option<Span>,
    /// Limits that are insisted on; the time is in `timeout`.
    pub(crate) limits: Limits,
    /// What may leave, and how.
    pub(crate) way_out: WayOut,
    /// Rooms in general, and the host that they are on.
    pub(crate) house: House,
    /// The most that may be asked for.
    pub(crate) ceiling: Ceiling,
    /// Promises that are insisted on.
    pub(crate) require: Vec<Sourced<Guarantee>>,
    /// What is shared besides the workspace.
    pub(crate) mounts: Vec<Sourced<Share>>,
    /// Variables.
    pub(crate) env: BTreeMap<OsString, Sourced<OsString>>,
    /// Where each of the single values came from, by its key.
    pub(crate) origins: BTreeMap<&'static str, Origin>,
}

/// A value that remembers where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    /// The value.
    pub(crate) value: T,
    /// Who said it.
    pub(crate) origin: Origin,
}

/// The most that may be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ceiling {
    /// Of each limit.
    pub(crate) limits: Limits,
    /// The widest network.
    pub(crate) network: Option<Network>,
    /// The most that can be reached.
    pub(crate) egress: EgressCeiling,
    /// Host directories under which mounts are allowed; all but the dangerous if not said.
    pub(crate) mounts: Option<BTreeSet<HostPath>>,
    /// Images that are allowed; all if not said.
    pub(crate) images: Option<BTreeSet<ImageRule>>,
}

/// Who builds the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first walled backend that upholds what is required.
    #[default]
    Auto,
    /// The host's own kernel.
    Native,
    /// Docker's daemon.
    Docker,
    /// Podman's service.
    Podman,
    /// Nobody: the program runs as if Bulkhead were not there.
    None,
}

impl Choice {
    /// The name by which flags and files know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::None => "none",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "native" => Ok(Self::Native),
            "docker" => Ok(Self::Docker),
            "podman" => Ok(Self::Podman),
            "none" | "local" => Ok(Self::None),
            _ => Err(format!(
                "`{}` is not a backend; known are auto, native, docker, podman, none",
                bulkhead_spec::escape(text)
            )),
        }
    }
}

/// The name of a runtime, as a container daemon knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeName(String);

impl RuntimeName {
    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RuntimeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        if text.starts_with(|it: char| it.is_ascii_alphanumeric()) && text.chars().all(fine) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "`{}` is not the name of a runtime; such names are runc, crun, runsc, kata",
            bulkhead_spec::escape(text)
        ))
    }
}

/// How long a program may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// So long.
    After(Span),
    /// As long as it likes.
    Never,
}

impl FromStr for Deadline {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        if text == "none" { Ok(Self::Never) } else { text.parse().map(Self::After) }
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(span) => span.fmt(out),
            Self::Never => out.write_str("none"),
        }
    }
}

impl Layer {
    /// How long a program may tidy up where nobody said: all must be gone within a second.
    pub(crate) const KILL_AFTER: Span = Span(Duration::from_millis(500));

    /// This layer on top of `below`: single values replace, lists add, ceilings only sink.
    #[must_use]
    pub(crate) fn over(self, below: Self) -> Self {
        let ceiling = self.ceiling.narrowed_by(below.ceiling.clone());
        let mut origins = below.origins;
        for (key, origin) in self.origins {
            // Of two ceilings the lower one counts, so its source is the one to name.
            let sunk = !key.starts_with("ceiling.") || ceiling.sank_at(key, &below.ceiling);
            if sunk {
                origins.insert(key, origin);
            }
        }
        let mut env = below.env;
        env.extend(self.env);
        Self {
            backend: self.backend.or(below.backend),
            runtime: self.runtime.or(below.runtime),
            network: self.network.or(below.network),
            image: self.image.or(below.image),
            pull: self.pull.or(below.pull),
            env_files: self.env_files.or(below.env_files),
            timeout: self.timeout.or(below.timeout),
            kill_after: self.kill_after.or(below.kill_after),
            limits: self.limits.or(below.limits),
            way_out: self.way_out.over(below.way_out),
            house: self.house.over(below.house),
            ceiling,
            require: [below.require, self.require].concat(),
            mounts: [below.mounts, self.mounts].concat(),
            env,
            origins,
        }
    }

    /// Who says what may be reached wants it to be reached.
    pub(crate) fn imply_network(&mut self) {
        if let (None, Some(origin)) = (self.network, self.way_out.wanted_by(&self.origins)) {
            self.network = Some(Network::Proxy);
            self.origins.insert("network", origin);
        }
    }

    /// The promises that are insisted on.
    pub(crate) fn required(&self) -> Guarantees {
        self.require.iter().map(|it| it.value).collect()
    }
}

impl Ceiling {
    fn narrowed_by(self, other: Self) -> Self {
        let policy = |it: Self| bulkhead_policy::Policy {
            ceiling: it.limits,
            network: it.network.unwrap_or(Network::Open),
            egress: it.egress,
            mountable: it.mounts,
            images: it.images,
            ..Default::default()
        };
        let said = self.network.is_some() || other.network.is_some();
        let both = policy(self).narrowed_by(policy(other));
        Self {
            limits: both.ceiling,
            network: said.then_some(both.network),
            mounts: both.mountable,
            egress: both.egress,
            images: both.images,
        }
    }

    /// Whether the ceiling of `key` is another one than in `before`.
    fn sank_at(&self, key: &str, before: &Self) -> bool {
        let of = |it: &Self| {
            let layer = Layer { ceiling: it.clone(), ..Layer::default() };
            super::value_of(&layer, key)
        };
        of(self) != of(before)
    }
}

/// The paths of a list, for a ceiling.
pub(crate) fn allowed(ceiling: &mut Ceiling, path: &str) -> Result<(), String> {
    if path == NOTHING {
        ceiling.mounts.get_or_insert_default();
        return Ok(());
    }
    let path = HostPath::try_from(PathBuf::from(path)).map_err(|error| error.to_string())?;
    ceiling.mounts.get_or_insert_default().insert(path);
    Ok(())
}
