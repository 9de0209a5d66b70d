//! Whom the gateway believes.

use std::sync::{Arc, OnceLock};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::sync::OnceCell;

/// The certificate authorities of the host, read once: it takes longer than most requests.
static HOST: OnceLock<RootCertStore> = OnceLock::new();

/// The certificate authorities that a host may be vouched for by.
pub(crate) struct Trust {
    extra: Vec<CertificateDer<'static>>,
    config: OnceCell<ClientConfig>,
}

impl Trust {
    /// Those of the host, and those in `pems`.
    pub(crate) fn new(pems: &[String]) -> Result<Self, String> {
        let mut extra = Vec::new();
        for pem in pems {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                extra.push(certificate.map_err(|it| it.to_string())?);
            }
        }
        Ok(Self { extra, config: OnceCell::new() })
    }

    /// How to talk TLS to a host.
    pub(crate) async fn client(&self) -> Result<ClientConfig, String> {
        let make = || async {
            let loaded = tokio::task::spawn_blocking(|| HOST.get_or_init(native).clone()).await;
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
