//! What a sandbox is told about its way out.

use std::{collections::BTreeMap, ffi::OsString, net::Ipv4Addr};

use bulkhead_spec::Label;

use crate::{ExecPlan, Plan};

/// The port of the proxy, at `127.0.0.1`, for programs that are told of it by variables.
pub const PROXY_PORT: u16 = 3128;

/// The port of the same proxy for programs that speak SOCKS.
pub const SOCKS_PORT: u16 = 1080;

/// The port at which names are asked for, at every address.
pub const NAMES_PORT: u16 = 53;

/// The directory, inside, of what Bulkhead has to tell the programs.
pub const NOTES_DIR: &str = "/run/bulkhead";

/// Where the certificates to be trusted are, all in one file.
const BUNDLE: &str = "ca-certificates.crt";
/// The certificate of the sandbox's own authority alone, for programs that add it to theirs.
const OWN: &str = "ca.crt";
/// The same as the bundle, for Java.
const KEYSTORE: &str = "cacerts.jks";

/// Variables that name the proxy. Programs differ in which case they read.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Loopback is the sandbox's own, and a program that asks a proxy for it would not find the server
/// that runs beside it. Nothing else is spared; a program that goes past the proxy meets the
/// gateway all the same.
const SPARED: &str = "localhost,127.0.0.1,::1";

/// Variables that name a file of all the certificates to be trusted.
const BUNDLES: [&str; 11] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "CODEX_CA_CERTIFICATE",
    "npm_config_cafile",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// Variables that name a file of certificates to be trusted besides the usual ones.
const ADDITIONS: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// What only somebody who has prepared the gateway knows.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    /// What stands for each secret inside, by the variable that holds it.
    pub placeholders: BTreeMap<String, String>,
    /// Whom to trust, if the gateway reads some of what passes.
    pub trust: Option<Trust>,
    /// The private network, and the sandbox's own address in it.
    pub neighbours: Option<(Label, Ipv4Addr)>,
}

/// Certificates for programs that are to trust the sandbox's own authority.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Of the sandbox's own authority, in PEM.
    pub own: String,
    /// All of them, in PEM.
    pub bundle: String,
    /// All of them, as Java keeps them.
    pub keystore: Vec<u8>,
}

impl Guide {
    /// The variables that it needs.
    fn variables(&self) -> BTreeMap<String, String> {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let mut all: BTreeMap<_, _> =
            PROXIES.iter().map(|name| ((*name).to_owned(), proxy.clone())).collect();
        for name in ["NO_PROXY", "no_proxy"] {
            // Neighbours are reached best without a proxy between.
            let network = self.neighbours.as_ref().map(|(network, _)| format!(",.{network}"));
            all.insert(name.to_owned(), format!("{SPARED}{}", network.unwrap_or_default()));
        }
        // Node reads the others only if it is told to.
        all.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
        if self.trust.is_some() {
            let at = |file: &str| format!("{NOTES_DIR}/{file}");
            all.extend(BUNDLES.iter().map(|name| ((*name).to_owned(), at(BUNDLE))));
            all.extend(ADDITIONS.iter().map(|name| ((*name).to_owned(), at(OWN))));
            let java = format!(
                "-Djavax.net.ssl.trustStore={} -Djavax.net.ssl.trustStoreType=jks",
                at(KEYSTORE)
            );
            all.insert("JAVA_TOOL_OPTIONS".to_owned(), java);
        }
        all
    }

    /// Adds the variables to `env`: what the caller said about proxies stays, but a secret is never
    /// more than its placeholder.
    fn tell(&self, env: &mut BTreeMap<OsString, OsString>) {
        for (name, value) in self.variables() {
            env.entry(name.into()).or_insert_with(|| value.into());
        }
        for (name, placeholder) in &self.placeholders {
            env.insert(name.into(), placeholder.into());
        }
    }
}

impl Plan {
    /// The plan, with what its programs must know of the gateway.
    #[must_use]
    pub fn guided(mut self, guide: &Guide) -> Self {
        guide.tell(&mut self.env);
        self.address = guide.neighbours.as_ref().map(|(_, address)| *address);
        if let Some(trust) = &guide.trust {
            let files = [
                (BUNDLE, trust.bundle.as_bytes().to_vec()),
                (OWN, trust.own.as_bytes().to_vec()),
                (KEYSTORE, trust.keystore.clone()),
            ];
            self.notes.extend(files.map(|(name, content)| (name.to_owned(), content)));
        }
        self
    }
}

impl ExecPlan {
    /// The program, with what it must know of the gateway.
    #[must_use]
    pub fn guided(mut self, guide: &Guide) -> Self {
        guide.tell(&mut self.env);
        self
    }
}
