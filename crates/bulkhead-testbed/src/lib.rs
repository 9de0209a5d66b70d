//! Container daemons to test and to measure against: private ones, with data, socket and cgroup of
//! their own, and an image that is made of this host's files, since none can be pulled.
//!
//! Nothing of Bulkhead is here: what is tested must not help to test itself. No part of the program
//! depends on this crate.
//!
//! Invariant: a daemon ends with whoever started it, however that ends, and takes its containers,
//! mounts and cgroups along.

mod cgroup;
mod child;
mod dockerd;
mod podman;
mod programs;
pub mod remapped;
mod rootfs;
mod rootless;

pub use dockerd::{Dockerd, Setup};
pub use podman::{Podman, Whose};
pub use programs::{command, find, output};
pub use rootless::Rootless;

/// Why there is no daemon, in a line.
pub type Reason = String;

/// What a container has that is asked for no image.
pub const IMAGE: &str = "bulkhead/agent:latest";
