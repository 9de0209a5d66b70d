//! The library, and what the command needs to talk to a server.

mod builder;
mod error;
mod files;
mod host;
mod local;
mod remote;
mod run;
mod sandbox;

pub use self::{
    builder::SandboxBuilder,
    error::SandboxError,
    files::Files,
    host::Host,
    local::Local,
    remote::{InvalidAddress, Remote},
    run::{Output, Process, Run, Said},
    sandbox::Sandbox,
};
