//! Bulkhead as a library: sandboxes for programs that nobody vouches for.
//!
//! A [`Sandbox`] lives in this process's own engine, or on a server that somebody started with
//! `bulkhead serve`; which of the two is a [`Host`], and everything else is the same.
//!
//! ```
//! # fn main() -> Result<(), bulkhead::SandboxError> {
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bulkhead::Sandbox;
//!
//! let sandbox = Sandbox::builder().memory(256 << 20).create().await?;
//! let ran = sandbox.shell("echo $((6 * 7)); exit 3").await?;
//! assert_eq!((ran.stdout(), ran.exit_code), ("42\n".into(), 3));
//! sandbox.close().await?;
//! # Ok(())
//! # }) }
//! ```
//!
//! A program that fails has an [`Output`]. An [`SandboxError`] means that Bulkhead could not do its work.

mod sdk;

pub use bulkhead_server::words;
pub use sdk::{
    Files, Host, InvalidAddress, Local, Output, Process, Remote, Run, Said, Sandbox,
    SandboxBuilder, SandboxError,
};
