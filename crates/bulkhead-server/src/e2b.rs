//! The doors that E2B's clients know.

pub(crate) mod control;
pub(crate) mod envd;
pub(crate) mod error;
mod filter;
pub(crate) mod interpreter;
pub(crate) mod network;
mod objects;
mod page;
mod secrets;
mod snapshots;
mod templates;
pub(crate) mod transforms;
pub(crate) mod volumes;

pub(crate) use control::OWN;
