//! What Podman is asked in words of its own, where Docker's do not reach it.
//!
//! Its service answers in both languages on one socket. The client that speaks Docker's has none of
//! these calls, so the one that is needed is said by hand: a request, and the line that answers it.

use std::{io, time::Duration};

use bollard::errors::Error;
use bulkhead_spec::Limits;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::Address;

/// The version of the language, which every later service speaks as well.
const VERSION: &str = "v4.0.0";
/// The most of an answer that is read.
const MOST: u64 = 64 << 10;
/// A turn of the scheduler in which a container has its share of the processors, in microseconds.
const PERIOD: u64 = 100_000;

/// Changes the limits of a container that runs, for which Podman has Docker's word only from its
/// fifth version on. What is `None` stays.
pub(super) async fn update(
    (address, patience): (&Address, Duration),
    container: &str,
    limits: &Limits,
) -> Result<(), Error> {
    let path = format!("/{VERSION}/libpod/containers/{container}/update");
    let resources = resources(limits);
    let asked = timeout(patience, post(address, &path, &resources));
    asked.await.map_err(|_| Error::RequestTimeoutError)?
}

/// Limits as runtimes know them.
fn resources(limits: &Limits) -> Value {
    // Memory and swap together: none is left for swap.
    let memory = limits.memory.map(|it| json!({ "limit": it.0, "swap": it.0 }));
    let quota = limits.cpus.map(|it| u64::from(it.millis()) * PERIOD / 1000);
    let cpu = quota.map(|it| json!({ "quota": it, "period": PERIOD }));
    let pids = limits.pids.map(|it| json!({ "limit": it }));
    let all = [("memory", memory), ("cpu", cpu), ("pids", pids)];
    let said = all.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?)));
    Value::Object(said.collect())
}

async fn post(address: &Address, path: &str, body: &Value) -> Result<(), Error> {
    match address {
        Address::Unix(socket) => say(UnixStream::connect(socket).await?, path, body).await,
        Address::Tcp(host) => say(TcpStream::connect(host).await?, path, body).await,
        Address::Foreign { text, hint: _ } => {
            Err(Error::UnsupportedURISchemeError { uri: text.clone() })
        }
    }
}

async fn say(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    body: &Value,
) -> Result<(), Error> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: podman\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    understood(&String::from_utf8_lossy(&answer))
}

/// What an answer means.
fn understood(answer: &str) -> Result<(), Error> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3));
    let status: Option<u16> = status.and_then(|it| it.parse().ok());
    match status {
        Some(200..=299) => Ok(()),
        Some(status_code) => {
            // In pieces, or not in Podman's form: then as it came.
            let line = body.lines().find_map(|it| serde_json::from_str::<Value>(it).ok());
            let said = line.as_ref().and_then(|it| it.get("message")?.as_str());
            let message = said.unwrap_or(body).trim().to_owned();
            Err(Error::DockerResponseServerError { status_code, message })
        }
        None => Err(io::Error::other("it does not answer in HTTP").into()),
    }
}

#[cfg(test)]
mod tests {
    use bulkhead_spec::{Bytes, Limits};
    use serde_json::json;

    use super::{resources, understood};

    #[test]
    fn only_what_is_said_is_different() {
        let limits =
            Limits { memory: Some(Bytes(1 << 20)), pids: Some(7), ..Limits::default() };
        let memory = json!({ "limit": 1 << 20, "swap": 1 << 20 });
        assert_eq!(resources(&limits), json!({ "memory": memory, "pids": { "limit": 7 } }));
        assert_eq!(resources(&Limits::default()), json!({}));
    }

    #[test]
    fn a_refusal_is_told_in_podmans_words() {
        assert!(understood("HTTP/1.1 201 Created\r\n\r\nabc").is_ok());
        let answer =
            "HTTP/1.1 500 Oh\r\nA: b\r\n\r\n1f\r\n{\"message\":\"no such cgroup\"}\r\n0\r\n";
        let refused = understood(answer).unwrap_err().to_string();
        assert!(refused.contains("500") && refused.contains("no such cgroup"), "{refused}");
        assert!(understood("garbage").is_err() && understood("").is_err());
    }
}
