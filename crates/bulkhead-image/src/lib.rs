//! Root filesystems: made from a project's own files, or fetched and unpacked.

pub mod build;
mod context;
pub mod devcontainer;
pub mod dockerfile;
mod ignore;
pub mod managed;
mod normal;
pub mod pins;
pub mod project;
mod range;
pub mod review;
pub mod tree;

pub use normal::pack_rootfs;

/// The time of everything in an image that we build: the first that a zip archive can say.
const EPOCH: u64 = 315_532_800;
/// The same in words.
const EPOCH_TEXT: &str = "1980-01-01T00:00:00Z";
