//! What was decided.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::Ipv4Addr,
    time::Duration,
};

use bulkhead_spec::{
    Guarantees, GuestPath, ImageFacts, Limits, Mount, Network, Root, Span, Stdin, Syscalls,
    Terminal, Workspace, escape_bytes,
};
use serde::{Serialize, Serializer};

use crate::{
    Denial, Disk, EgressPlan, NAMES_PORT, Nameplate, PROXY_PORT, SOCKS_PORT,
    admit::check_variables, resolve::guarantees_of,
};

/// A sandbox that may be built, in full detail.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub(crate) root: Root,
    pub(crate) workspace: Option<Workspace>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) tmpfs: Vec<GuestPath>,
    pub(crate) home: GuestPath,
    #[serde(skip)]
    pub(crate) home_files: BTreeMap<String, String>,
    #[serde(skip)]
    pub(crate) notes: BTreeMap<String, Vec<u8>>,
    pub(crate) network: Network,
    #[serde(skip_serializing_if = "EgressPlan::is_silent")]
    pub(crate) egress: EgressPlan,
    #[serde(skip)]
    pub(crate) address: Option<Ipv4Addr>,
    #[serde(rename = "env_names", serialize_with = "names")]
    pub(crate) env: BTreeMap<OsString, OsString>,
    #[serde(skip)]
    pub(crate) fallback: BTreeMap<OsString, OsString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<ImageFacts>,
    #[serde(skip_serializing_if = "Disk::is_plain")]
    pub(crate) disk: Disk,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nameplate: Option<Nameplate>,
    pub(crate) syscalls: Syscalls,
    pub(crate) limits: Limits,
    pub(crate) require: Guarantees,
    pub(crate) prefer: Guarantees,
}

/// A program that may be run in the sandbox of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct ExecPlan {
    #[serde(serialize_with = "words")]
    pub(crate) argv: Vec<OsString>,
    pub(crate) dir: GuestPath,
    #[serde(rename = "env_names", serialize_with = "names")]
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) timeout: Option<Span>,
    pub(crate) grace: Span,
    pub(crate) stdin: Stdin,
    pub(crate) terminal: Option<Terminal>,
}

/// A plan as one backend can build it.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The plan, without those default limits that the backend cannot hold.
    pub plan: Plan,
    /// The promises of those limits.
    pub missing: Guarantees,
}

impl Plan {
    /// The plan as a backend that upholds `upheld` can build it, or what it lacks.
    ///
    /// What was asked for is never given up; what only a default asked for is, and is listed.
    pub fn settle(mut self, upheld: &Guarantees) -> Result<Settled, Guarantees> {
        let lacking = self.require.missing_from(upheld);
        if !lacking.is_empty() {
            return Err(lacking);
        }
        let missing = self.prefer.missing_from(upheld);
        self.limits = guarantees_of::held(self.limits, &missing);
        self.prefer = self.prefer.shared_with(upheld);
        Ok(Settled { plan: self, missing })
    }

    /// The plan with what its image says: its variables where the caller has none, its
    /// directory and its program for those who leave them open.
    pub fn furnished(mut self, image: ImageFacts) -> Result<Self, Denial> {
        check_variables(&image.env)?;
        let mut env = std::mem::take(&mut self.fallback);
        env.extend(image.env.clone());
        env.extend(std::mem::take(&mut self.env));
        self.env = env;
        self.image = Some(image);
        Ok(self)
    }

    /// What is known of the image that is the root, once it is here.
    pub fn image(&self) -> Option<&ImageFacts> {
        self.image.as_ref()
    }

    /// What the sandbox sees as `/`.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The directory that is worked on.
    pub fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_ref()
    }

    /// Host directories and files to share.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Empty private directories.
    pub fn tmpfs(&self) -> &[GuestPath] {
        &self.tmpfs
    }

    /// The private home directory.
    pub fn home(&self) -> &GuestPath {
        &self.home
    }

    /// Small files to be found there, by their names.
    pub fn home_files(&self) -> &BTreeMap<String, String> {
        &self.home_files
    }

    /// What the sandbox may talk to.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Which hosts that are, with a network that asks rules.
    pub fn egress(&self) -> &EgressPlan {
        &self.egress
    }

    /// The address of the sandbox in its private network, once it has one.
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.address
    }

    /// Small files to be found in [`crate::NOTES_DIR`], by their names.
    pub fn notes(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.notes
    }

    /// The ports at which the gateway meets programs that know of no proxy. Those of the web are
    /// always among them, so that whoever is refused is told why.
    pub fn ports(&self) -> BTreeSet<u16> {
        let taken = |port: &u16| matches!(*port, PROXY_PORT | SOCKS_PORT | NAMES_PORT);
        let mut ports = self.egress.rules().ports();
        ports.extend([80, 443]);
        ports.retain(|port| !taken(port));
        ports
    }

    /// Which system calls are let through.
    pub fn syscalls(&self) -> Syscalls {
        self.syscalls
    }

    /// The ceilings to hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the backend that builds this must uphold.
    pub fn require(&self) -> &Guarantees {
        &self.require
    }

    /// What it should uphold besides, where it can.
    pub fn prefer(&self) -> &Guarantees {
        &self.prefer
    }
}

impl ExecPlan {
    /// The program and its arguments; there is at least the program.
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// Where it starts.
    pub fn dir(&self) -> &GuestPath {
        &self.dir
    }

    /// All of its variables.
    pub fn env(&self) -> &BTreeMap<OsString, OsString> {
        &self.env
    }

    /// When it is stopped, if ever.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|Span(timeout)| timeout)
    }

    /// How long it may tidy up before it is killed.
    pub fn grace(&self) -> Duration {
        self.grace.0
    }

    /// What it reads.
    pub fn stdin(&self) -> Stdin {
        self.stdin
    }

    /// The terminal that it runs on.
    pub fn terminal(&self) -> Option<Terminal> {
        self.terminal
    }
}

/// Values may be secrets, so only names are ever written down.
fn names<S: Serializer>(env: &BTreeMap<OsString, OsString>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(env.keys().map(|name| escape_bytes(name.as_encoded_bytes())))
}

fn words<S: Serializer>(argv: &[OsString], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(argv.iter().map(|word| escape_bytes(word.as_encoded_bytes())))
}
