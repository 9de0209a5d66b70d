//! An image that cannot be had or used.

use std::io;

use bulkhead_spec::Digest;

/// Why there is no root from this image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It was not fetched before, and must not be now.
    #[error("it is not here, and `--pull never` forbids to fetch it")]
    Absent,
    /// The registry could not be asked.
    #[error("the registry `{registry}` does not answer: {why}")]
    Unreachable {
        /// Its host.
        registry: String,
        /// What went wrong on the way.
        why: String,
    },
    /// The registry said no.
    #[error("the registry `{registry}` answered {status}{}", said(.why))]
    Refused {
        /// Its host.
        registry: String,
        /// The status.
        status: u16,
        /// What it said, escaped, if anything.
        why: String,
    },
    /// Credentials are configured and could not be read.
    #[error("cannot read credentials from {place}: {why}")]
    Credentials {
        /// The file or the helper.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The local engine could not be asked, or said no.
    #[error("the container engine {0}")]
    Daemon(String),
    /// Content that is not what its digest says.
    #[error("{what} should be {expected} and is {found}")]
    Digest {
        /// Which content.
        what: &'static str,
        /// What was promised.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// A document that cannot be understood.
    #[error("its {what} cannot be understood: {why}")]
    Malformed {
        /// Which document.
        what: &'static str,
        /// What is wrong with it, escaped.
        why: String,
    },
    /// No image for this machine.
    #[error("it is made for {found}, this machine needs {needed}")]
    Platform {
        /// What it is made for.
        found: String,
        /// What would run here.
        needed: String,
    },
    /// A layer that no honest builder makes.
    #[error("layer {layer} is refused at `{entry}`: {why}")]
    Hostile {
        /// The layer.
        layer: Digest,
        /// The entry, escaped.
        entry: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The layout or archive has no such image, or several.
    #[error("{0}")]
    Choice(String),
    /// The cache or a file could not be used.
    #[error("could not {action}")]
    System {
        /// What was to be done, as a verb.
        action: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn said(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

impl ImageError {
    /// What to do about it, if we know.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Absent => Some("leave out `--pull never` once".to_owned()),
            Self::Refused { registry, status: 401 | 403, .. } => {
                Some(format!("log in first: docker login {registry}"))
            }
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Credentials { .. }
            | Self::Daemon(_)
            | Self::Digest { .. }
            | Self::Malformed { .. }
            | Self::Platform { .. }
            | Self::Hostile { .. }
            | Self::Choice(_)
            | Self::System { .. } => None,
        }
    }

    /// For `map_err` of what the system refuses.
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// For `map_err` of what cannot be read.
    pub(crate) fn malformed<E: ToString>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Malformed { what, why: bulkhead_spec::escape(&error.to_string()) }
    }
}
