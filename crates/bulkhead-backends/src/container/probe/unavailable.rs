//! No daemon to talk to, and what to type.

use std::io;

use super::Product;
use crate::container::detect::UnknownContext;

/// Why there is no daemon to talk to.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// No socket lies at any of the usual places.
    #[error("{} is not running here: none of its sockets is there", product.title())]
    Nowhere {
        /// Whose daemon was looked for.
        product: Product,
    },
    /// A context was named that does not exist.
    #[error(transparent)]
    Context(#[from] UnknownContext),
    /// The address is one that we do not speak.
    #[error("cannot talk to {} at `{at}`", product.title())]
    Foreign {
        /// Whose daemon.
        product: Product,
        /// Where, escaped.
        at: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// The socket is there and not for us.
    #[error("{} at `{at}` does not let this user in", product.title())]
    Denied {
        /// Whose daemon.
        product: Product,
        /// Where, escaped.
        at: String,
    },
    /// Nobody listens.
    #[error("{} at `{at}` does not answer", product.title())]
    Down {
        /// Whose daemon.
        product: Product,
        /// Where, escaped.
        at: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody listens and says nothing.
    #[error("{} at `{at}` has not answered for {seconds} s", product.title())]
    Slow {
        /// Whose daemon.
        product: Product,
        /// Where, escaped.
        at: String,
        /// How long we waited.
        seconds: u64,
    },
    /// The answer is none that we understand.
    #[error("{} at `{at}` answers with something else: {why}", product.title())]
    Odd {
        /// Whose daemon.
        product: Product,
        /// Where, escaped.
        at: String,
        /// What came instead, escaped.
        why: String,
    },
}

impl Unavailable {
    /// What to type.
    pub fn hint(&self) -> &str {
        match self {
            Self::Nowhere { product: Product::Docker } => {
                "start it: sudo systemctl start docker; or name its socket: DOCKER_HOST=unix:///PATH"
            }
            Self::Nowhere { product: Product::Podman } => {
                "start its service: systemctl --user start podman.socket (as root: systemctl start \
                 podman.socket), or: podman system service --time 0 & ; CONTAINER_HOST names another \
                 socket"
            }
            Self::Context(_) => "`docker context ls` lists those that there are",
            Self::Foreign { hint, .. } => hint,
            Self::Denied { product: Product::Docker, .. } => {
                "join its group (sudo usermod -aG docker $USER, then log in again; its members are as \
                 good as root here), or use a daemon of your own: dockerd-rootless-setuptool.sh install"
            }
            Self::Denied { product: Product::Podman, .. } => {
                "use a service of your own: systemctl --user start podman.socket"
            }
            Self::Down { product: Product::Docker, .. }
            | Self::Slow { product: Product::Docker, .. } => {
                "is it running? sudo systemctl restart docker; then: docker version"
            }
            Self::Down { product: Product::Podman, .. }
            | Self::Slow { product: Product::Podman, .. } => {
                "is it running? systemctl --user restart podman.socket (as root: without --user)"
            }
            Self::Odd { .. } => {
                "does a container daemon listen there? see DOCKER_HOST and CONTAINER_HOST"
            }
        }
    }
}
