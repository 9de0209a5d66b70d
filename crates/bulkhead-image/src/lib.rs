//! Root filesystems: made from a project's own files, or fetched and unpacked.

pub mod devcontainer;
pub mod dockerfile;
pub mod project;
mod range;
pub mod review;
pub mod tree;
