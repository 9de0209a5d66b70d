//! Sandboxes that a container daemon builds: Docker and Podman, one implementation.
//!
//! [`detect`] says where a daemon may be, [`probe`] asks it what it can do, and [`findings`] says
//! which promises follow.

pub mod detect;
mod findings;
mod gate;
pub mod probe;
mod runtime;

pub use detect::{Address, Candidate, Product, Surroundings, candidates};
pub use findings::findings;
pub use gate::{Caution, cautions};
pub use probe::{Cgroup, Facts, Held, Identity, Unavailable, find, probe};
pub use runtime::{Kernel, Runtime, UnknownRuntime};
