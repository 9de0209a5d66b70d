//! A server, by its address.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bulkhead_engine::rooms::{Client, Dial, Duplex};
use bulkhead_server::{PROTOCOL, words::ProblemView};
use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, UPGRADE},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

use super::SandboxError;

/// How long a server may take to be reached.
const REACH: Duration = Duration::from_secs(10);
/// The longest answer that is held in memory.
const MOST: usize = 64 << 20;

/// A server that was started with `bulkhead serve`, here or elsewhere.
#[derive(Clone)]
pub struct Remote {
    place: Arc<Place>,
    key: Option<Arc<str>>,
}

#[derive(Debug)]
enum Place {
    Socket(PathBuf),
    Tcp { host: String, port: u16, tls: Tls },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    Plain,
    Used,
}

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no address of a server: unix:///PATH, http://HOST:PORT or https://HOST[:PORT]"
)]
pub struct InvalidAddress(String);

impl fmt::Debug for Remote {
    /// Without the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.place, out)
    }
}

impl Remote {
    /// The server at `address`: `unix:///PATH`, `http://HOST:PORT` or `https://HOST[:PORT]`. By a
    /// socket, its owner needs no key.
    pub fn at(address: &str, key: Option<&str>) -> Result<Self, InvalidAddress> {
        let bad = || InvalidAddress(bulkhead_spec::escape(address));
        let place = if let Some(path) = address.strip_prefix("unix://") {
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return Err(bad());
            }
            Place::Socket(path)
        } else {
            let (tls, rest) = match address.split_once("://") {
                Some(("http", rest)) => (Tls::Plain, rest),
                Some(("https", rest)) => (Tls::Used, rest),
                Some(_) | None => return Err(bad()),
            };
            let authority: http::uri::Authority =
                rest.trim_end_matches('/').parse().map_err(|_| bad())?;
            let usual = if tls == Tls::Used { 443 } else { 80 };
            let port = authority.port_u16().unwrap_or(usual);
            // A name in the address would be taken for a key, and is none.
            if authority.as_str().contains('@') || authority.host().is_empty() {
                return Err(bad());
            }
            Place::Tcp { host: authority.host().to_owned(), port, tls }
        };
        // A key with a line break would be another header.
        let fine = key.is_none_or(|it| it.bytes().all(|it| it.is_ascii_graphic()));
        if !fine {
            return Err(InvalidAddress("a key with odd letters".to_owned()));
        }
        Ok(Self { place: Arc::new(place), key: key.map(Arc::from) })
    }

    /// A client of the sandbox `id`.
    pub fn client(&self, id: &str) -> Client {
        Client::over(Room { remote: self.clone(), id: id.to_owned() })
    }

    /// Makes a call that is answered in JSON.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, SandboxError> {
        let body = self.call(method, path, body).await?;
        serde_json::from_slice(&body).map_err(|error| SandboxError::Confused(error.to_string()))
    }

    /// Makes a call whose answer is only that it is done.
    pub async fn tell(&self, method: &Method, path: &str) -> Result<(), SandboxError> {
        self.call(method, path, None::<&()>).await.map(drop)
    }

    async fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, SandboxError> {
        let confused = |error: String| SandboxError::Confused(error);
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| confused(error.to_string()))?.unwrap_or_default();
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| confused(error.to_string()))?;
        let response = self.send(request).await.map_err(SandboxError::Unreachable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await;
        let body = body.map_err(|error| SandboxError::Unreachable(io::Error::other(error)))?;
        let body = body.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        Err(match serde_json::from_slice::<ProblemView>(&body) {
            Ok(problem) => SandboxError::Problem(Box::new(problem)),
            Err(_) => confused(format!("status {status}")),
        })
    }

    /// A raw connection to the shim of the sandbox `id`.
    async fn upgrade(&self, id: &str) -> io::Result<Duplex> {
        let request = Request::builder()
            .uri(format!("/v1/sandboxes/{id}/stream"))
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, PROTOCOL)
            .body(Full::default())
            .map_err(io::Error::other)?;
        let mut response = self.send(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let body = Limited::new(response.into_body(), MOST).collect().await;
            let body = body.map_err(io::Error::other)?.to_bytes();
            let problem = serde_json::from_slice::<ProblemView>(&body);
            let why = problem.map_or_else(|_| "no upgrade".to_owned(), |it| it.detail);
            return Err(io::Error::other(why));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(io::Error::other)?;
        let (from, to) = tokio::io::split(TokioIo::new(upgraded));
        Ok(Duplex::new(from, to))
    }

    /// Sends a request on a connection of its own.
    async fn send(&self, mut request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        let headers = request.headers_mut();
        let host = self.host();
        headers.insert(HOST, host.parse().map_err(io::Error::other)?);
        if let Some(key) = &self.key {
            let value = format!("Bearer {key}").parse();
            let mut value: http::HeaderValue = value.map_err(io::Error::other)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let stream = tokio::time::timeout(REACH, self.connect()).await??;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(io::Error::other)?;
        tokio::spawn(async move {
            // What breaks is told to whoever waits for the answer.
            connection.with_upgrades().await.unwrap_or_default();
        });
        sender.send_request(request).await.map_err(io::Error::other)
    }

    fn host(&self) -> String {
        match &*self.place {
            Place::Socket(_) => "localhost".to_owned(),
            Place::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match &*self.place {
            Place::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Place::Tcp { host, port, tls } => {
                let name = host.trim_matches(['[', ']']);
                let stream = TcpStream::connect((name, *port)).await?;
                stream.set_nodelay(true)?;
                if *tls == Tls::Plain {
                    return Ok(Box::new(stream));
                }
                let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(trusting()?);
                Ok(Box::new(connector.connect(name, stream).await?))
            }
        }
    }
}

/// Bytes both ways.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Believes whom the host believes.
fn trusting() -> io::Result<Arc<ClientConfig>> {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A sandbox of a server.
#[derive(Debug)]
struct Room {
    remote: Remote,
    id: String,
}

#[async_trait::async_trait]
impl Dial for Room {
    async fn dial(&self) -> io::Result<Duplex> {
        self.remote.upgrade(&self.id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_refused() {
        let read = |text: &str| Remote::at(text, None).map(|it| it.host());
        assert_eq!(read("unix:///run/x.sock").unwrap(), "localhost");
        assert_eq!(read("http://127.0.0.1:3000").unwrap(), "127.0.0.1:3000");
        assert_eq!(read("https://example.org/").unwrap(), "example.org:443");
        assert_eq!(read("http://[::1]:3000").unwrap(), "[::1]:3000");
        for text in ["", "unix://x", "ftp://x", "http://", "http://a@b", "http://a/b", "x:1"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(Remote::at("http://localhost", Some("a\nb")).is_err());
    }

    #[test]
    fn a_key_is_not_shown() {
        let remote = Remote::at("http://localhost", Some("e2b_secret")).unwrap();
        assert!(!format!("{remote:?}").contains("secret"));
    }
}
