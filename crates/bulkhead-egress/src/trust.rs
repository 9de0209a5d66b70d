//! Whom the gateway believes.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::sync::OnceCell;

use crate::plan::Upstream;

/// The certificate authorities of the host, read once: it takes longer than most requests.
static HOST: OnceLock<RootCertStore> = OnceLock::new();

/// The certificate authorities that a host may be vouched for by.
pub(crate) struct Trust {
    extra: Vec<CertificateDer<'static>>,
    files: Vec<PathBuf>,
    config: OnceCell<ClientConfig>,
}

impl Trust {
    /// Those of the host, and those that `upstream` names.
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, String> {
        let mut extra = Vec::new();
        for pem in &upstream.roots {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                extra.push(certificate.map_err(|it| it.to_string())?);
            }
        }
        Ok(Self { extra, files: upstream.files.clone(), config: OnceCell::new() })
    }

    /// How to talk TLS to a host.
    pub(crate) async fn client(&self) -> Result<ClientConfig, String> {
        let make = || async {
            let files = self.files.clone();
            let load = move || with_files(HOST.get_or_init(native).clone(), &files);
            let loaded = tokio::task::spawn_blocking(load).await;
            let mut roots = loaded.map_err(|it| it.to_string())?;
            for certificate in &self.extra {
                roots.add(certificate.clone()).map_err(|it| it.to_string())?;
            }
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|it| it.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(config)
        };
        self.config.get_or_try_init(make).await.cloned()
    }
}

/// What the host trusts, as far as it can be read. With none, nobody is believed.
fn native() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(added, ignored, "read the certificate authorities of the host");
    roots
}

/// `roots` and what the files hold.
fn with_files(mut roots: RootCertStore, files: &[PathBuf]) -> RootCertStore {
    for file in files {
        let read = CertificateDer::pem_file_iter(file);
        let certificates = read.into_iter().flatten().filter_map(Result::ok);
        let (added, ignored) = roots.add_parsable_certificates(certificates);
        tracing::debug!(file = %file.display(), added, ignored, "read certificate authorities");
    }
    roots
}
