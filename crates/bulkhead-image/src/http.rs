//! Requests to registries and to the local engine, one connection each.
//!
//! Invariant: nothing is followed and nothing is remembered here. Where a redirect leads and who
//! gets credentials is for the caller to decide.

use std::{
    net::IpAddr,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_mins(1);

/// Why there is no answer, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct NoAnswer {
    pub(crate) why: String,
    /// Whether a connection was made at all, and failed at its encryption.
    pub(crate) unencrypted: bool,
}

impl NoAnswer {
    #[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
    pub(crate) fn new(why: impl ToString) -> Self {
        Self { why: bulkhead_spec::escape(&why.to_string()), unencrypted: false }
    }
}

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any: the user named the host.
    Anywhere,
    /// Not this machine and what is only next to it: somebody else named the host.
    Elsewhere,
}

/// Asks over the network.
#[derive(Clone, Default)]
pub(crate) struct Client {
    tls: Arc<OnceLock<TlsConnector>>,
}

/// A server: what credentials belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// The server of an absolute address.
    pub(crate) fn of(uri: &Uri) -> Result<Self, NoAnswer> {
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => {
                return Err(NoAnswer::new("an address is neither http nor https"));
            }
        };
        let host = uri.host().filter(|it| !it.is_empty());
        let host = host.ok_or_else(|| NoAnswer::new("an address has no host"))?;
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(NoAnswer::new("an address has a user name in it"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        Ok(Self { https, host, port })
    }

    /// Whether it is this machine by its name.
    pub(crate) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|it| it.is_loopback())
    }
}

impl Client {
    /// Sends `request`, whose address is absolute, and returns the answer, whatever its status.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        reach: Reach,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let origin = Origin::of(request.uri())?;
        let tcp = connect(&origin, reach).await?;
        if !origin.https {
            return exchange(tcp, request).await;
        }
        let name = rustls::pki_types::ServerName::try_from(origin.host.clone());
        let name = name.map_err(NoAnswer::new)?;
        let connector = self.tls.get_or_init(connector);
        let shaken = timeout(CONNECT, connector.connect(name, tcp)).await;
        let secured = shaken
            .map_err(|_| NoAnswer::new("it is silent"))?
            .map_err(|error| NoAnswer { unencrypted: true, ..NoAnswer::new(error) })?;
        exchange(secured, request).await
    }
}

/// Sends `request` to the engine that listens at `socket`.
pub(crate) async fn send_to_socket(
    socket: &Path,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, NoAnswer> {
    let stream = timeout(CONNECT, UnixStream::connect(socket)).await;
    let stream = stream.map_err(|_| NoAnswer::new("it is silent"))?.map_err(NoAnswer::new)?;
    exchange(stream, request).await
}

async fn connect(origin: &Origin, reach: Reach) -> Result<TcpStream, NoAnswer> {
    let found = timeout(CONNECT, tokio::net::lookup_host((origin.host.as_str(), origin.port)));
    let found = found.await.map_err(|_| NoAnswer::new("its name cannot be looked up"))?;
    let mut last = NoAnswer::new(format!("`{}` has no address", origin.host));
    for address in found.map_err(NoAnswer::new)? {
        if reach == Reach::Elsewhere && is_near(address.ip()) {
            let why = format!("it sends us to {}, which is not its to name", address.ip());
            last = NoAnswer::new(why);
            continue;
        }
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = NoAnswer::new(error),
            Err(_) => last = NoAnswer::new("it is silent"),
        }
    }
    Err(last)
}

/// Whether an address means this machine, or a service that only machines like it can reach, such
/// as the one that hands out a cloud's credentials.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => it.is_loopback() || it.is_link_local() || it.is_unspecified(),
        IpAddr::V6(it) => it.is_loopback() || it.is_unspecified() || it.is_unicast_link_local(),
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, NoAnswer> {
    let (mut parts, body) = request.into_parts();
    if let Some(authority) = parts.uri.authority() {
        let host = http::HeaderValue::from_str(authority.as_str()).map_err(NoAnswer::new)?;
        parts.headers.insert(http::header::HOST, host);
    }
    let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    parts.uri = path.parse().map_err(NoAnswer::new)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    // Ends with the answer's body, or when that is dropped.
    tokio::spawn(connection);
    let answer = timeout(ANSWER, sender.send_request(Request::from_parts(parts, body))).await;
    answer.map_err(|_| NoAnswer::new("it is silent"))?.map_err(told)
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn told(error: hyper::Error) -> NoAnswer {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    NoAnswer::new(cause.unwrap_or_else(|| error.to_string()))
}

/// The next piece of a body; `None` at its end.
pub(crate) async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, NoAnswer> {
    loop {
        let frame = timeout(ANSWER, body.frame()).await;
        match frame.map_err(|_| NoAnswer::new("it fell silent"))? {
            None => return Ok(None),
            Some(Err(error)) => return Err(told(error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A whole body that is at most so long.
pub(crate) async fn whole(mut body: Incoming, most: u64) -> Result<Vec<u8>, NoAnswer> {
    let mut bytes = Vec::new();
    while let Some(data) = piece(&mut body).await? {
        if most < (bytes.len() + data.len()) as u64 {
            return Err(NoAnswer::new("its answer is too long"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn connector() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some hosts have one that cannot be read; the others do.
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions();
    let config = config.map(|it| it.with_root_certificates(roots).with_no_client_auth());
    match config {
        Ok(config) => TlsConnector::from(Arc::new(config)),
        // The provider has the default versions; without them nothing could be encrypted.
        Err(error) => unreachable!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_near;

    #[test]
    fn a_registry_cannot_send_us_to_ourselves() {
        for near in
            ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:127.1.2.3"]
        {
            assert!(is_near(near.parse().unwrap()), "{near}");
        }
        for far in ["10.1.2.3", "192.0.2.1", "2001:db8::1"] {
            assert!(!is_near(far.parse().unwrap()), "{far}");
        }
    }
}
