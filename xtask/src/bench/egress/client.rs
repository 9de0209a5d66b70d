//! The near end: a program that fetches, by one way, and says how long it took.
//!
//! It runs in a sandbox, and is told what to do on its stdin, so that all ways take turns.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::{Deserialize, Serialize};

use super::world::NAME;
use crate::trouble::{OrTrouble, Trouble};

const PATIENCE: Duration = Duration::from_mins(1);
/// Requests on one connection, before there is a new one.
const PER_CONNECTION: u32 = 100;
/// What is asked for at a time where bytes are to flow: little enough that the slowest is not asked
/// for much more than its time, and enough that asking costs nothing.
const PORTION: u64 = 128 << 20;

/// How the server is reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Way {
    /// Who is connected to, as `host:port`.
    pub(super) at: String,
    /// What a proxy there is asked for, as `host:port`; nobody is asked if there is none.
    pub(super) tunnel: Option<String>,
    /// Whom to believe, if TLS is to be spoken.
    pub(super) trust: Option<PathBuf>,
    /// The port of the server itself.
    pub(super) port: u16,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Job {
    /// A connection, a request and its answer, so often; each is timed.
    Connections(u32),
    /// Bytes on one connection, for at least so many milliseconds.
    Flow(u64),
    /// So many connections at one time, of which each must be answered twice.
    Crowd(u32),
    /// So many requests, on a new connection now and then.
    Requests(u32),
}

/// An order from outside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) way: Way,
    pub(super) job: Job,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// How long it took, each time, in nanoseconds.
    Took(Vec<u64>),
    /// So many bytes came in so many nanoseconds.
    Flowed(u64, u64),
    /// How many were served.
    Served(u32),
    /// Why it did not work.
    Failed(String),
}

/// Does what stdin says until there is no more.
pub(crate) fn serve() -> Result<(), Trouble> {
    let broken = || "the orders cannot be read".to_owned();
    for line in io::stdin().lock().lines() {
        let Order { way, job } =
            serde_json::from_str(&line.or_trouble(broken)?).or_trouble(broken)?;
        let answer = perform(&way, job).unwrap_or_else(|it| Answer::Failed(it.to_string()));
        let answer = serde_json::to_string(&answer).or_trouble(broken)?;
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).or_trouble(broken)?;
    }
    Ok(())
}

fn perform(way: &Way, job: Job) -> io::Result<Answer> {
    let caller = Caller::new(way)?;
    match job {
        Job::Connections(count) => {
            let one = |_| {
                let start = Instant::now();
                caller.connect()?.fetch(1)?;
                Ok(nanos(start))
            };
            (0..count).map(one).collect::<io::Result<_>>().map(Answer::Took)
        }
        Job::Flow(milliseconds) => {
            let mut call = caller.connect()?;
            call.fetch(1)?;
            let (start, mut bytes) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_millis(milliseconds) {
                call.fetch(PORTION)?;
                bytes += PORTION;
            }
            Ok(Answer::Flowed(bytes, nanos(start)))
        }
        Job::Crowd(count) => {
            let calls: io::Result<Vec<Call>> = (0..count).map(|_| caller.connect()).collect();
            let mut calls = calls?;
            for _ in 0..2 {
                calls.iter_mut().try_for_each(|it| it.fetch(1))?;
            }
            Ok(Answer::Served(u32::try_from(calls.len()).unwrap_or(u32::MAX)))
        }
        Job::Requests(count) => {
            let mut left = count;
            while left > 0 {
                let now = left.min(PER_CONNECTION);
                let mut call = caller.connect()?;
                (0..now).try_for_each(|_| call.fetch(100))?;
                left -= now;
            }
            Ok(Answer::Served(count))
        }
    }
}

fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Everything that is looked up once.
struct Caller {
    at: SocketAddr,
    tunnel: Option<String>,
    tls: Option<Arc<ClientConfig>>,
    host: String,
}

impl Caller {
    fn new(way: &Way) -> io::Result<Self> {
        let mut found = way.at.to_socket_addrs()?;
        let at = found.next().ok_or(io::ErrorKind::NotFound)?;
        let tls = way.trust.as_ref().map(believe).transpose()?;
        Ok(Self { at, tunnel: way.tunnel.clone(), tls, host: format!("{NAME}:{}", way.port) })
    }

    fn connect(&self) -> io::Result<Call> {
        let stream = TcpStream::connect_timeout(&self.at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        if let Some(to) = &self.tunnel {
            ask(&stream, to)?;
        }
        let host = self.host.clone();
        let Some(config) = &self.tls else {
            return Ok(Call { line: Line::Plain(stream), host });
        };
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(config), name);
        let session = session.map_err(io::Error::other)?;
        let stream = StreamOwned::new(session, stream);
        Ok(Call { line: Line::Tls(Box::new(stream)), host })
    }
}

fn believe(path: &PathBuf) -> io::Result<Arc<ClientConfig>> {
    let text = fs::read(path)?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&text).flatten();
    roots.add_parsable_certificates(certificates);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = config;
    // Each connection is a new one, as those of most programs that start anew are.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Asks a proxy for a tunnel.
fn ask(mut stream: &TcpStream, to: &str) -> io::Result<()> {
    stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())?;
    let head = head_of(&mut stream)?;
    if head.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    Err(io::Error::other(head.lines().next().unwrap_or_default().to_owned()))
}

/// Reads up to the end of a head, and not a byte more.
fn head_of(from: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        from.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A connection to the server.
struct Call {
    line: Line,
    host: String,
}

enum Line {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Call {
    fn fetch(&mut self, bytes: u64) -> io::Result<()> {
        match &mut self.line {
            Line::Plain(stream) => fetch(stream, &self.host, bytes),
            Line::Tls(stream) => fetch(stream, &self.host, bytes),
        }
    }
}

fn fetch(stream: &mut (impl Read + Write), host: &str, bytes: u64) -> io::Result<()> {
    let request = format!("GET /{bytes} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let head = head_of(stream)?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other(head.lines().next().unwrap_or_default().to_owned()));
    }
    let mut buffer = vec![0; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(room) = buffer.get_mut(..most) else { return Ok(()) };
        match stream.read(room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(())
}
