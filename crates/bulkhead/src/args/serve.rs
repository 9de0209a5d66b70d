//! The flags of `serve` and `key`.

use std::{net::SocketAddr, path::PathBuf};

use bulkhead_spec::Span;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::run::Ask;

/// `serve`
#[derive(Debug, ClapArgs)]
#[command(override_usage = "bulkhead serve [FLAGS]")]
pub(crate) struct ServeArgs {
    /// Where clients come in.
    #[command(flatten)]
    pub(crate) door: DoorArgs,
    /// Keep NUMBER rooms waiting, made ahead; `pool.size` of the configuration if not said
    #[arg(long, value_name = "NUMBER", help_heading = "Other")]
    pub(crate) pool: Option<u32>,
    /// What every room is like.
    #[command(flatten)]
    pub(crate) ask: Ask,
}

/// Where clients come in
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Door")]
pub(crate) struct DoorArgs {
    /// Listen on ADDRESS:PORT instead of a socket in the runtime directory
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Listen on a socket at PATH
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub(crate) socket: Option<PathBuf>,
    /// Let other machines come in: --listen may be an address that is not a loopback one
    #[arg(long, requires = "listen")]
    pub(crate) allow_remote: bool,
    /// Answer under NAME too; without it only names and addresses of loopback are answered to
    #[arg(long, value_name = "NAME")]
    pub(crate) host_name: Vec<String>,
    /// The domain by which the server and ports of rooms are reached, also over TLS: PORT-ROOM.DOMAIN
    #[arg(long, value_name = "DOMAIN[:PORT]", requires = "listen")]
    pub(crate) domain: Option<String>,
    /// Prove the domain with the certificates in FILE instead of one that the server makes
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "domain")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key to --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// `key …`
#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make a key and print it, once
    Create(KeyCreateArgs),
    /// List the keys
    Ls,
    /// Remove a key
    Rm(KeyRmArgs),
}

/// `key create`
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyCreateArgs {
    /// How you tell it from others
    pub(crate) name: String,
    /// What it is good for
    #[arg(long, value_name = "SCOPE", default_value = "run")]
    pub(crate) scope: KeyScope,
    /// How long it is good for anything
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Span>,
}

/// What a key is good for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KeyScope {
    /// Looking
    Read,
    /// Making rooms and running programs
    Run,
    /// Everything
    Admin,
}

/// `key rm`
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyRmArgs {
    /// The name of the key
    pub(crate) name: String,
}
