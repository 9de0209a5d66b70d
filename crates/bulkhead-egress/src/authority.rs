//! The certificate authority of one sandbox.
//!
//! Its key is made when the gateway starts, never leaves it, and ends with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bulkhead_spec::Host;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

/// The most certificates that are kept.
const KEPT: usize = 256;

/// How long a certificate is good: longer than any sandbox, shorter than clients object to.
const LIFETIME: Duration = Duration::from_hours(24 * 90);

/// Makes certificates that only one sandbox trusts.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key: KeyPair,
    kept: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    /// It could not be made.
    #[error(transparent)]
    Make(#[from] rcgen::Error),
    /// It could not be used.
    #[error(transparent)]
    Use(#[from] rustls::Error),
}

impl Authority {
    pub(crate) fn new() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Bulkhead sandbox");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        last(&mut params);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
            key: KeyPair::generate()?,
            kept: Mutex::default(),
        })
    }

    /// The certificate that programs inside must trust, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.pem
    }

    /// How to talk TLS in the name of `host`.
    pub(crate) fn server_for(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(host) {
            return Ok(Arc::clone(known));
        }
        let config = Arc::new(self.make(host)?);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn make(&self, host: &Host) -> Result<ServerConfig, AuthorityError> {
        let name = match host {
            Host::Name(name) => name.to_string(),
            Host::Address(address) => address.to_string(),
        };
        let mut params = CertificateParams::new(vec![name.clone()])?;
        // A common name has at most 64 characters; the name that counts is elsewhere.
        params.distinguished_name = named(name.get(..64).unwrap_or(&name));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        last(&mut params);
        let leaf: CertificateDer<'static> = params.signed_by(&self.key, &self.issuer)?.into();
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// From yesterday, since clocks differ.
fn last(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_hours(24)).into();
    params.not_after = (now + LIFETIME).into();
}
