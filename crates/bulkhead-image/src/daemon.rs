//! Images of the local container engine, exported over its socket.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use bulkhead_spec::{Digest, Reference, escape};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;

use crate::{
    ImageError,
    http::{NoAnswer, piece, send_to_socket, whole},
    store::Store,
    unpack::Caps,
};

const LONGEST_ANSWER: u64 = 4 << 20;

/// An engine that answers.
pub(crate) struct Daemon {
    socket: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: Digest,
}

#[derive(Deserialize)]
struct Complaint {
    message: String,
}

impl Daemon {
    /// The first of `sockets` that is there.
    pub(crate) fn find(sockets: &[PathBuf]) -> Result<Self, ImageError> {
        let found = sockets.iter().find(|it| it.exists());
        let socket = found.ok_or_else(|| {
            let looked: Vec<String> =
                sockets.iter().map(|it| format!("`{}`", it.display())).collect();
            ImageError::Daemon(format!("has no socket at {}", looked.join(" or ")))
        })?;
        Ok(Self { socket: socket.clone() })
    }

    /// Which image `name` stands for.
    pub(crate) async fn inspect(&self, name: &Reference) -> Result<Digest, ImageError> {
        let answer = self.get(&format!("/images/{}/json", local(name))).await?;
        let text = whole(answer.into_body(), LONGEST_ANSWER).await;
        let text = text.map_err(|error| self.silent(&error))?;
        let inspected: Inspected =
            serde_json::from_slice(&text).map_err(ImageError::malformed("description"))?;
        Ok(inspected.id)
    }

    /// The image as an archive, in a file without a name.
    pub(crate) async fn export(
        &self,
        name: &Reference,
        store: &Store,
    ) -> Result<File, ImageError> {
        let answer = self.get(&format!("/images/{}/get", local(name))).await?;
        let mut body = answer.into_body();
        let mut file = store.nameless()?;
        let mut count = 0;
        while let Some(data) = piece(&mut body).await.map_err(|error| self.silent(&error))? {
            count += data.len() as u64;
            if Caps::USUAL.bytes < count {
                return Err(ImageError::Daemon("sends more than an image can be".to_owned()));
            }
            file.write_all(&data).map_err(ImageError::system("write a temporary file"))?;
        }
        Ok(file)
    }

    async fn get(&self, path: &str) -> Result<Response<Incoming>, ImageError> {
        // The oldest version that all engines in use still speak.
        let address = format!("http://localhost/v1.24{path}");
        let ask: Result<Request<Full<Bytes>>, _> =
            Request::builder().uri(address).body(Full::default());
        let ask = ask.map_err(|error| self.silent(&NoAnswer::new(error)))?;
        let answer = send_to_socket(&self.socket, ask).await;
        let answer = answer.map_err(|error| self.silent(&error))?;
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.status();
        let text = whole(answer.into_body(), LONGEST_ANSWER).await.unwrap_or_default();
        let why = serde_json::from_slice::<Complaint>(&text).map(|it| it.message);
        let why = why.unwrap_or_else(|_| status.to_string());
        Err(ImageError::Daemon(format!("says: {}", escape(&why))))
    }

    fn silent(&self, error: &NoAnswer) -> ImageError {
        ImageError::Daemon(format!("at `{}` does not answer: {error}", shown(&self.socket)))
    }
}

/// The name as an engine keeps it: without what Docker fills in.
fn local(name: &Reference) -> String {
    let full = name.to_string();
    let short = full.strip_prefix("docker.io/library/").or(full.strip_prefix("docker.io/"));
    short.unwrap_or(&full).to_owned()
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
