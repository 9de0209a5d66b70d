//! TLS for a server that is reached by names of its own domain.
//!
//! Its authority is made once and stays, so that clients need to be told of it once; the
//! certificate for the domain is made at each start. Whoever has certificates brings them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

use crate::private;

/// How long the authority is good.
const AUTHORITY: Duration = Duration::from_hours(24 * 3650);
/// How long a certificate is good; clients object to longer ones.
const LEAF: Duration = Duration::from_hours(24 * 397);

/// What a server shows to prove its name.
#[derive(Clone)]
pub struct Certificates {
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Certificates")
    }
}

impl Certificates {
    /// Those in two files in PEM: the chain, and the key.
    pub fn given(chain: &Path, key: &Path) -> io::Result<Self> {
        let chain: Vec<_> = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect)
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
        Self::of(chain, key)
    }

    /// Those for `domain` and every name directly below it, by an authority whose certificate and
    /// key are kept in `dir`. Returns where the certificate is that clients must trust.
    pub fn own(dir: &Path, domain: &str) -> io::Result<(Self, PathBuf)> {
        let (pem, key_file) = (dir.join("authority.pem"), dir.join("authority.key"));
        if !pem.exists() || !key_file.exists() {
            let key = KeyPair::generate().map_err(io::Error::other)?;
            let made = authority().self_signed(&key).map_err(io::Error::other)?;
            private::write(&key_file, key.serialize_pem().as_bytes())?;
            private::write(&pem, made.pem().as_bytes())?;
        }
        let key = KeyPair::from_pem(&fs::read_to_string(&key_file)?);
        let key = key.map_err(io::Error::other)?;
        let issuer = Issuer::from_ca_cert_pem(&fs::read_to_string(&pem)?, key);
        let issuer = issuer.map_err(io::Error::other)?;

        let names = vec![domain.to_owned(), format!("*.{domain}")];
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name = named("Bulkhead server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        last(&mut params, LEAF);
        let own = KeyPair::generate().map_err(io::Error::other)?;
        let leaf = params.signed_by(&own, &issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(own.serialize_der().into());
        Ok((Self::of(vec![leaf.into()], key)?, pem))
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key))
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Bulkhead server's own authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    last(&mut params, AUTHORITY);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// From yesterday, since clocks differ.
fn last(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_hours(24)).into();
    params.not_after = (now + lifetime).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_stays_and_its_key_is_its_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (_, pem) = Certificates::own(dir.path(), "rooms.test").unwrap();
        let first = fs::read(&pem).unwrap();
        let (_, again) = Certificates::own(dir.path(), "other.test").unwrap();
        assert_eq!(fs::read(again).unwrap(), first);
        let key = fs::metadata(dir.path().join("authority.key")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        assert!(Certificates::given(&pem, Path::new("/none")).is_err());
    }
}
