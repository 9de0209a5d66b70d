//! The far end: a server on loopback that sends as many bytes as it is asked for, in the clear and
//! over TLS.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::trouble::{OrTrouble, Trouble};

/// By this name a sandbox reaches its host.
pub(super) const NAME: &str = "host.bulkhead.internal";

/// What is written in one go.
const CHUNK: usize = 128 << 10;

/// A server that lives as long as this process.
pub(super) struct World {
    pub(super) plain: u16,
    pub(super) tls: u16,
    /// The authority that says whose the server is, in PEM.
    pub(super) authority: PathBuf,
}

impl World {
    pub(super) fn start(dir: &Path) -> Result<Self, Trouble> {
        let failed = || "could not start the server to be reached".to_owned();
        let (config, authority) = certified().or_trouble(failed)?;
        let path = dir.join("authority.pem");
        fs::write(&path, authority).or_trouble(failed)?;
        let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_trouble(failed)?;
        let tls = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_trouble(failed)?;
        let ports = [&plain, &tls].map(|it| it.local_addr().map(|it| it.port()));
        let [plain_port, tls_port] = ports;
        let world = Self {
            plain: plain_port.or_trouble(failed)?,
            tls: tls_port.or_trouble(failed)?,
            authority: path,
        };
        plain.set_nonblocking(true).or_trouble(failed)?;
        tls.set_nonblocking(true).or_trouble(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.or_trouble(failed)?;
        thread::spawn(move || {
            runtime.block_on(async {
                let acceptor = TlsAcceptor::from(Arc::new(config));
                tokio::join!(serve(plain, None), serve(tls, Some(acceptor)))
            })
        });
        Ok(world)
    }
}

/// A certificate for the server, and who vouches for it.
fn certified() -> Result<(ServerConfig, String), Box<io::Error>> {
    let other = |error: &dyn std::error::Error| Box::new(io::Error::other(error.to_string()));
    let key = KeyPair::generate().map_err(|it| other(&it))?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).map_err(|it| other(&it))?.pem();
    let issuer = Issuer::new(authority, key);
    let own = KeyPair::generate().map_err(|it| other(&it))?;
    let names = vec![NAME.to_owned(), "localhost".to_owned()];
    let params = CertificateParams::new(names).map_err(|it| other(&it))?;
    let leaf = params.signed_by(&own, &issuer).map_err(|it| other(&it))?;
    let key = PrivateKeyDer::Pkcs8(own.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|it| other(&it))?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.into()], key)
        .map_err(|it| other(&it))?;
    Ok((config, pem))
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Small answers are not to wait for larger ones.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that goes away is none of our business.
            match acceptor {
                None => drop(answer(stream).await),
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(answer(stream).await);
                    }
                }
            }
        });
    }
}

/// Answers `GET /N` with N bytes, again and again.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let bytes = vec![b'x'; CHUNK];
    let mut head: Vec<u8> = Vec::new();
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&head);
        let path = text.split(' ').nth(1).and_then(|it| it.rsplit('/').next());
        let mut left: usize = path.and_then(|it| it.parse().ok()).unwrap_or(0);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {left}\r\n\r\n");
        stream.write_all(answer.as_bytes()).await?;
        while left > 0 {
            let now = bytes.get(..left.min(CHUNK)).unwrap_or(&bytes);
            stream.write_all(now).await?;
            left -= now.len();
        }
        stream.flush().await?;
    }
}
