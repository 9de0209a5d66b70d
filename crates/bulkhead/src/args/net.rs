//! What may leave a sandbox, as flags.

use bulkhead_spec::{Budget, Bytes, InvalidRule, Label, Network, Preset, SecretBinding};
use clap::Args as ClapArgs;

use crate::config::network;

/// What may leave
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetArgs {
    /// What the sandbox may talk to: none, proxy, observe or open
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    pub(crate) net: Option<Network>,
    /// Let HOST be reached: a name, `*.name`, `**.name`, host:port, `GET https://host/path/**`, an
    /// address or a range, or a group such as `npm`
    #[arg(long, value_name = "HOST", value_parser = allowed)]
    pub(crate) allow: Vec<String>,
    /// Let HOST not be reached, whatever else allows it
    #[arg(long, value_name = "HOST", value_parser = denied)]
    pub(crate) deny: Vec<String>,
    /// Begin with the rules of locked, balanced or open
    #[arg(long, value_name = "PRESET")]
    pub(crate) preset: Option<Preset>,
    /// Give HOST the secret that NAME stands for inside: NAME[=env:VAR|file:PATH|command:LINE]@HOST[,HOST][#HEADER[: WORD]]
    #[arg(long, value_name = "NAME@HOST")]
    pub(crate) secret: Vec<SecretBinding>,
    /// Spend no more than this at HOST or a group: HOST=10MiB, HOST=500requests, HOST=200000tokens, HOST=$5
    #[arg(long, value_name = "HOST=LIMIT")]
    pub(crate) budget: Vec<Budget>,
    /// Join the private network NAME: sandboxes in it reach each other by the names of --name
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<Label>,
    /// Connections to the world at one time
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections: Option<u32>,
    /// What may be sent to the world
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_upload: Option<Bytes>,
    /// What may come from the world
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_download: Option<Bytes>,
    /// Connections and requests to the world in all
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_requests: Option<u64>,
}

impl NetArgs {
    /// The first flag that only makes sense if there is a gateway.
    pub(crate) fn first_rule(&self) -> Option<&'static str> {
        let said = [
            ("--allow", !self.allow.is_empty()),
            ("--preset", self.preset.is_some()),
            ("--secret", !self.secret.is_empty()),
            ("--deny", !self.deny.is_empty()),
            ("--network", self.network.is_some()),
            ("--budget", !self.budget.is_empty()),
            ("--max-connections", self.max_connections.is_some()),
            ("--max-upload", self.max_upload.is_some()),
            ("--max-download", self.max_download.is_some()),
            ("--max-requests", self.max_requests.is_some()),
        ];
        said.into_iter().find_map(|(flag, said)| said.then_some(flag))
    }
}

/// A rule that is known to be one; what it means is found out once its origin is known.
pub(super) fn allowed(text: &str) -> Result<String, InvalidRule> {
    bulkhead_spec::allowing(text, "--allow").map(|_| text.to_owned())
}

pub(super) fn denied(text: &str) -> Result<String, InvalidRule> {
    bulkhead_spec::denying(text, "--deny").map(|_| text.to_owned())
}
