//! A registry with one image, which it serves as it is told.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bulkhead_spec::Digest;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::json;
use sha2::Digest as _;
use tokio::net::TcpListener;

/// How something is served.
#[derive(Clone)]
pub(super) enum Answer {
    Honest,
    /// Something else of the same length or not.
    Other(Vec<u8>),
    /// Half of it, and then the connection ends.
    Cut,
    /// Without an end.
    Endless,
}

/// What must be shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    Token,
    Password,
}

/// The image.
#[derive(Clone)]
pub(super) struct Parts {
    blobs: HashMap<String, Vec<u8>>,
    layers: Vec<String>,
    manifest: String,
    pub(super) wants: Wants,
    pub(super) redirect: Option<String>,
    pub(super) layers_answer: Answer,
    pub(super) manifest_answer: Answer,
}

/// One request.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
}

pub(super) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Ask>>>,
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest::new(sha2::Sha256::digest(bytes).into())
}

pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A layer with one file.
pub(super) fn layer(name: &str, content: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append_data(&mut header, name, content).unwrap();
    tar.into_inner().unwrap()
}

/// An image of these layers, not compressed.
pub(super) fn image(layers: &[Vec<u8>]) -> Parts {
    let ids: Vec<String> = layers.iter().map(|it| digest(it).to_string()).collect();
    let config = json!({
        "os": "linux",
        "architecture": architecture(),
        "config": { "Env": ["GREETING=hello"] },
        "rootfs": { "type": "layers", "diff_ids": ids },
    });
    let config = config.to_string().into_bytes();
    let described = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": digest(bytes).to_string(), "size": bytes.len() });
    let tar = "application/vnd.oci.image.layer.v1.tar";
    let listed: Vec<_> = layers.iter().map(|it| described(tar, it)).collect();
    let manifest = json!({
        "schemaVersion": 2,
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": listed,
    });
    let manifest = manifest.to_string().into_bytes();
    let mut blobs: HashMap<String, Vec<u8>> =
        layers.iter().map(|it| (digest(it).to_string(), it.clone())).collect();
    blobs.insert(digest(&config).to_string(), config);
    let name = digest(&manifest).to_string();
    blobs.insert(name.clone(), manifest);
    Parts {
        blobs,
        layers: ids,
        manifest: name,
        wants: Wants::Nothing,
        redirect: None,
        layers_answer: Answer::Honest,
        manifest_answer: Answer::Honest,
    }
}

impl Parts {
    /// Puts the image behind an index; the last of `machines` is the one that it is for.
    pub(super) fn index_for(&mut self, machines: &[(&str, &str)]) -> Digest {
        let size = self.blobs[&self.manifest].len();
        let all: Vec<_> = machines
            .iter()
            .enumerate()
            .map(|(at, (os, architecture))| {
                let own = at + 1 == machines.len();
                let digest =
                    if own { self.manifest.clone() } else { digest(os.as_bytes()).to_string() };
                let platform = json!({ "os": os, "architecture": architecture });
                json!({ "digest": digest, "size": size, "platform": platform })
            })
            .collect();
        let index = json!({ "schemaVersion": 2, "manifests": all }).to_string().into_bytes();
        let own = self.manifest.parse().unwrap();
        self.manifest = digest(&index).to_string();
        self.blobs.insert(self.manifest.clone(), index);
        own
    }
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

impl Server {
    pub(super) async fn start(parts: Parts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Ask>>> = Arc::default();
        let (parts, log) = (Arc::new(parts), Arc::clone(&asked));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (parts, log) = (Arc::clone(&parts), Arc::clone(&log));
                let serve = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&parts, &log, &request, address);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), serve);
                tokio::spawn(connection);
            }
        });
        Self { address, asked }
    }

    pub(super) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    pub(super) fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    parts: &Parts,
    log: &Mutex<Vec<Ask>>,
    request: &Request<Incoming>,
    address: SocketAddr,
) -> Response<Body> {
    let path = request.uri().to_string();
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.map(|it| it.to_str().unwrap().to_owned());
    log.lock().unwrap().push(Ask { path: path.clone(), authorization: shown.clone() });
    let known = Some("Basic dXNlcjpwYXNzd29yZA==");
    if path.starts_with("/token") {
        if shown.as_deref() != known {
            return whole(StatusCode::UNAUTHORIZED, Vec::new());
        }
        return whole(StatusCode::OK, br#"{"token":"let-me-in"}"#.to_vec());
    }
    let challenge = match parts.wants {
        Wants::Token if shown.as_deref() != Some("Bearer let-me-in") => {
            Some(format!(r#"Bearer realm="http://{address}/token",service="s",scope="all""#))
        }
        Wants::Password if shown.as_deref() != known => Some(r#"Basic realm="s""#.to_owned()),
        Wants::Nothing | Wants::Token | Wants::Password => None,
    };
    if let Some(challenge) = challenge {
        let mut refused = whole(StatusCode::UNAUTHORIZED, Vec::new());
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        return refused;
    }
    let last = path.rsplit('/').next().unwrap();
    if let (Some(base), true) = (&parts.redirect, path.contains("/blobs/")) {
        let mut moved = whole(StatusCode::TEMPORARY_REDIRECT, Vec::new());
        let place = format!("{base}{path}").parse().unwrap();
        moved.headers_mut().insert(header::LOCATION, place);
        return moved;
    }
    let manifest = path.contains("/manifests/");
    // A server that was asked for another digest answers with what it has.
    let name = if manifest && !parts.blobs.contains_key(last) { &parts.manifest } else { last };
    let Some(content) = parts.blobs.get(name) else {
        return whole(StatusCode::NOT_FOUND, Vec::new());
    };
    let how = match (manifest, parts.layers.iter().any(|it| it == last)) {
        (true, _) => &parts.manifest_answer,
        (false, true) => &parts.layers_answer,
        (false, false) => &Answer::Honest,
    };
    match how {
        Answer::Honest => whole(StatusCode::OK, content.clone()),
        Answer::Other(other) => whole(StatusCode::OK, other.clone()),
        Answer::Cut => {
            let half = content[..content.len() / 2].to_vec();
            let broken = std::io::Error::other("cut");
            let pieces = [Ok(Frame::data(Bytes::from(half))), Err(broken)];
            Response::new(StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync())
        }
        Answer::Endless => {
            let first = futures_util::stream::iter([content.clone()]);
            let more = futures_util::stream::repeat(vec![0_u8; 1 << 16]);
            let pieces = first.chain(more).map(|it| Ok(Frame::data(Bytes::from(it))));
            Response::new(StreamBody::new(pieces).boxed_unsync())
        }
    }
}

fn whole(status: StatusCode, content: Vec<u8>) -> Response<Body> {
    let body = http_body_util::Full::new(Bytes::from(content));
    let mut answer = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer
}
