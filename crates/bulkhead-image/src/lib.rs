//! Root filesystems: made from a project's own files, or fetched and unpacked.
//!
//! [`Images`] has the second half: it takes an image from a registry, a layout, an archive or the
//! local container engine, unpacks each layer once, and hands out directories that sandboxes share
//! read-only under an overlay.
//!
//! Invariant: what is in the store was verified. A layer appears under its digest when all of it
//! was read, hashed, unpacked and written to the disk, and not before.

mod archive;
pub mod build;
mod context;
mod credentials;
mod daemon;
pub mod devcontainer;
pub mod dockerfile;
mod error;
mod hash;
mod http;
mod ignore;
mod images;
mod layout;
pub mod managed;
mod manifest;
mod normal;
pub mod pins;
pub mod project;
mod range;
mod registry;
pub mod review;
mod shelf;
mod store;
pub mod tree;
mod unpack;

pub use error::ImageError;
pub use images::{Images, Settings};
pub use normal::pack_rootfs;
pub use store::{InUse, Seen};

/// The time of everything in an image that we build: the first that a zip archive can say.
const EPOCH: u64 = 315_532_800;
/// The same in words.
const EPOCH_TEXT: &str = "1980-01-01T00:00:00Z";
