//! Our own API, as a program of any language meets it: plain HTTP, spoken by hand.

mod ahead;
mod calls;
mod refusals;
mod remote;
mod threats;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::host::Host;

/// A server, ended with its test.
pub(crate) struct Server {
    pub(crate) host: Host,
    child: Child,
    /// `127.0.0.1:PORT`, or nothing if it listens on its socket.
    pub(crate) address: String,
    pub(crate) key: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// What a refusal says, in short.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let kind = self.json()["type"].as_str().unwrap().to_owned();
        (self.status, kind.trim_start_matches("urn:bulkhead:problem:").to_owned())
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::at(Host::new())
    }

    pub(crate) fn at(host: Host) -> Self {
        Self::with_flags(host, &[])
    }

    /// One that is started with `flags`.
    pub(crate) fn with_flags(host: Host, flags: &[&str]) -> Self {
        Self::surrounded(host, flags, |_| ())
    }

    /// One with surroundings of its own.
    fn surrounded(host: Host, flags: &[&str], surround: impl FnOnce(&mut Command)) -> Self {
        let key = host.bulkhead(["key", "create", "test"]).stdout.trim().to_owned();
        let flags = [&["serve", "--listen", "127.0.0.1:0"], flags].concat();
        let mut command = host.command(&flags);
        surround(&mut command);
        let (child, address) = begun(command);
        Self { host, child, address, key }
    }

    /// One that listens on its socket.
    pub(crate) fn on_socket() -> Self {
        let host = Host::new();
        let (child, _) = started(&host, &[]);
        Self { host, child, address: String::new(), key: String::new() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.host.path().join("records/run/bulkhead.sock")
    }

    /// Kills the server and starts another one at the same address.
    pub(crate) fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let address = self.address.clone();
        (self.child, _) = started(&self.host, &["--listen", &address]);
    }

    /// Says `text` as it is, and hears everything until the server hangs up.
    pub(crate) fn raw(&self, text: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        // A server that refuses early does not read the rest.
        stream.write_all(text).unwrap_or_default();
        heard(stream)
    }

    /// A request with these headers and no others.
    pub(crate) fn bare(&self, line: &str, headers: &[&str], body: &[u8]) -> Answer {
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        let text = [format!("{text}\r\n").as_bytes(), body].concat();
        self.raw(&text)
    }

    /// A request with the key.
    pub(crate) fn with(&self, line: &str, headers: &[&str], body: &[u8]) -> Answer {
        let host = format!("Host: {}", self.address);
        let key = format!("Authorization: Bearer {}", self.key);
        let length = format!("Content-Length: {}", body.len());
        let all = [&[host.as_str(), &key, &length], headers].concat();
        self.bare(line, &all, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.with(&format!("GET {path}"), &[], &[])
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body)
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = ["Content-Type: application/json"];
        self.with(&format!("{method} {path}"), &headers, body.to_string().as_bytes())
    }

    /// Makes a sandbox and returns its path.
    pub(crate) fn create(&self, wanted: &Value) -> String {
        let made = self.post("/v1/sandboxes", wanted);
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        format!("/v1/sandboxes/{}", made.json()["id"].as_str().unwrap())
    }

    /// What a line for the shell says in the sandbox at `path`.
    pub(crate) fn shell(&self, path: &str, line: &str) -> Value {
        let ran = self.post(&format!("{path}/exec"), &serde_json::json!({ "command": line }));
        assert_eq!(ran.status, 200, "{}", String::from_utf8_lossy(&ran.body));
        ran.json()
    }
}

fn started(host: &Host, args: &[&str]) -> (Child, String) {
    begun(host.command(["serve"].iter().chain(args)))
}

/// A server that `command` starts, and where it is.
fn begun(mut command: Command) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = told
        .find_map(|line| {
            let line = line.unwrap();
            line.split_once("serving at ")
                .map(|(_, it)| it.trim_start_matches("http://").to_owned())
        })
        .expect("the server says where it is");
    // Whatever else it says is read, so that it can say it.
    std::thread::spawn(move || told.for_each(drop));
    (child, address)
}

/// Everything that comes, parted.
fn heard(mut stream: impl std::io::Read) -> Answer {
    let mut all = Vec::new();
    // One that is cut is told by what is missing.
    stream.read_to_end(&mut all).unwrap_or_default();
    let end = all.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&all)));
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = all[end + 4..].to_vec();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { joined(&body) } else { body };
    Answer { status, head, body }
}

/// What comes in this time, as text, from somebody who goes on talking.
fn heard_for(mut stream: TcpStream, time: Duration) -> String {
    stream.set_read_timeout(Some(time)).unwrap();
    let (mut all, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        all.extend_from_slice(&chunk[..count]);
        // The end of the program is the last that is told.
        if String::from_utf8_lossy(&chunk[..count]).contains("event: ended") {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// A body in chunks, put together.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = body.windows(2).position(|it| it == b"\r\n") {
        let length = String::from_utf8_lossy(&body[..end]).into_owned();
        let length = usize::from_str_radix(length.trim(), 16).unwrap();
        let Some(chunk) = body.get(end + 2..end + 2 + length) else { break };
        all.extend_from_slice(chunk);
        body = body.get(end + 4 + length..).unwrap_or_default();
    }
    all
}

/// A request by the socket of a server.
pub(crate) fn by_socket(server: &Server, line: &str, headers: &[&str]) -> Answer {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let headers = [&["Host: x", "Connection: close"], headers].concat().join("\r\n");
    let text = format!("{line} HTTP/1.1\r\n{headers}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    heard(stream)
}

impl Drop for Server {
    fn drop(&mut self) {
        for room in self.host.bulkhead(["ls", "--all", "--quiet"]).stdout.lines() {
            self.host.bulkhead(["rm", "--force", room]);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
