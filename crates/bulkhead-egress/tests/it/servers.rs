//! Hosts of the world outside.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, ServerConfig, pki_types::CertificateDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// Says back what it hears, after the name that it was given.
pub(crate) async fn echo(greeting: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(greeting.as_bytes()).await.unwrap();
                let (mut from, mut to) = stream.split();
                drop(tokio::io::copy(&mut from, &mut to).await);
            });
        }
    });
    at
}

/// What a server heard.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) line: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

/// A server of HTTP, and what it hears.
#[derive(Clone, Default)]
pub(crate) struct Web {
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
    answers: Arc<Mutex<Vec<Response<Full<Bytes>>>>>,
}

impl Web {
    /// What is answered next, instead of what was heard.
    pub(crate) fn answer(&self, response: Response<Full<Bytes>>) {
        self.answers.lock().unwrap().push(response);
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    async fn serve(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let line = format!("{} {} {:?}", parts.method, parts.uri, parts.version);
        let body = match body.collect().await {
            Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
            Err(_) => "cut off".to_owned(),
        };
        let heard = Heard { line: line.clone(), headers: parts.headers, body: body.clone() };
        self.heard.lock().unwrap().push(heard);
        let answer = self.answers.lock().unwrap().pop();
        Ok(answer.unwrap_or_else(|| Response::new(Full::from(format!("{line}|{body}")))))
    }

    async fn talk(
        self,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    ) {
        let service = service_fn(move |request| self.clone().serve(request));
        let serving = auto::Builder::new(TokioExecutor::new());
        drop(serving.serve_connection(TokioIo::new(stream), service).await);
    }

    pub(crate) async fn plain(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let web = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(web.clone().talk(stream));
            }
        });
        at
    }

    pub(crate) async fn secure(&self, pki: &Pki, name: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(pki.server(name));
        let web = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (web, acceptor) = (web.clone(), acceptor.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        web.talk(stream).await;
                    }
                });
            }
        });
        at
    }
}

/// Says more than anybody wants to hear, in HTTP if `greeting` is, and counts what was taken.
pub(crate) async fn endless(greeting: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let chunk = vec![b'x'; 64 << 10];
                let mut written = stream.write_all(greeting.as_bytes()).await;
                while written.is_ok() {
                    count.fetch_add(chunk.len(), Relaxed);
                    written = stream.write_all(&chunk).await;
                }
            });
        }
    });
    (at, taken)
}

/// Says `answer` to whoever has sent a head, as it is.
pub(crate) async fn scripted(answer: &'static [u8]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&all);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let notes = Arc::clone(&notes);
            tokio::spawn(async move {
                let head = crate::ways::read_head(&mut stream).await;
                notes.lock().unwrap().push(head);
                drop(stream.write_all(answer).await);
                let mut rest = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut rest).await {
                    let text = String::from_utf8_lossy(&rest[..read]).into_owned();
                    notes.lock().unwrap().push(text);
                }
            });
        }
    });
    (at, all)
}

/// Certificates for the world.
pub(crate) struct Pki {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn server(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let leaf: CertificateDer<'static> =
            params.signed_by(&key, &self.issuer).unwrap().into();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf],
                rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A TLS client that hides a hello in its hello, as browsers do: `name` is the one outside. What
/// the server makes of it does not matter here.
pub(crate) async fn hiding(stream: TcpStream, name: &str) -> std::io::Result<()> {
    use rustls::client::{EchGreaseConfig, EchMode};

    let suite = rustls::crypto::aws_lc_rs::hpke::ALL_SUPPORTED_SUITES[0];
    let (key, _) = suite.generate_key_pair().unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_ech(EchMode::Grease(EchGreaseConfig::new(suite, key)))
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    match connected {
        // It has answered: its certificate is what is not believed.
        Err(error) if error.to_string().contains("certificate") => Ok(()),
        other => other.map(drop),
    }
}

/// A TLS client that trusts `pem` and asks for `name`.
pub(crate) async fn tls(
    stream: TcpStream,
    pem: &str,
    name: &str,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    use rustls::pki_types::pem::PemObject;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    let name = name.to_owned().try_into().unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match tokio::time::timeout(std::time::Duration::from_secs(5), connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
    }
}
