//! Credentials for registries, from where Docker and Podman keep them.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

use base64::Engine as _;
use bulkhead_spec::{Secret, escape};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use crate::ImageError;

/// What Docker calls its own registry.
const DOCKER: &str = "https://index.docker.io/v1/";
const LONGEST_ANSWER: u64 = 1 << 16;
const PATIENCE: Duration = Duration::from_secs(30);

/// Who we are to a registry.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// A name and a password, ready for a header: `name:password` in base 64.
    Basic(Secret),
    /// A token to be exchanged for others.
    Identity(Secret),
}

/// The part of a `config.json` that is about credentials.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    #[serde(rename = "auth")]
    encoded: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Looks for credentials of `registry` in `files`; the first that has some counts.
pub(crate) async fn find(
    files: &[PathBuf],
    registry: &str,
) -> Result<Option<Credentials>, ImageError> {
    for path in files {
        let refused = |why: String| ImageError::Credentials {
            place: format!("`{}`", escape(&path.to_string_lossy())),
            why,
        };
        let text = match tokio::fs::read(path).await {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(refused(error.to_string())),
        };
        let file: File =
            serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        if let Some(found) = file.credentials(registry).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

impl File {
    async fn credentials(&self, registry: &str) -> Result<Option<Credentials>, ImageError> {
        let mine = |key: &String| host_of(key) == registry;
        let helper = self.cred_helpers.iter().find(|(key, _)| mine(key));
        let helper = helper.map(|(_, helper)| helper).or(self.creds_store.as_ref());
        if let Some(helper) = helper.filter(|it| !it.is_empty()) {
            let known = self.auths.keys().find(|key| mine(key)).map(String::as_str);
            let server = known.unwrap_or(match registry {
                "docker.io" => DOCKER,
                other => other,
            });
            if let Some(found) = ask(helper, server).await? {
                return Ok(Some(found));
            }
        }
        Ok(self.auths.iter().find(|(key, _)| mine(key)).and_then(|(_, auth)| auth.read()))
    }
}

impl Auth {
    fn read(&self) -> Option<Credentials> {
        let said = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        if let Some(token) = said(&self.identitytoken) {
            return Some(Credentials::Identity(Secret::new(token)));
        }
        if let Some(auth) = said(&self.encoded) {
            return Some(Credentials::Basic(Secret::new(auth.trim().to_owned())));
        }
        Some(basic(&said(&self.username)?, &said(&self.password)?))
    }
}

fn basic(name: &str, password: &str) -> Credentials {
    let plain = format!("{name}:{password}");
    Credentials::Basic(Secret::new(base64::engine::general_purpose::STANDARD.encode(plain)))
}

/// The host that a key of the file is about: `https://index.docker.io/v1/` is `docker.io`.
fn host_of(key: &str) -> &str {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    let host = bare.unwrap_or(key).split('/').next().unwrap_or_default();
    match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    }
}

/// Asks the program `docker-credential-NAME`, which the user has put into their configuration.
async fn ask(helper: &str, server: &str) -> Result<Option<Credentials>, ImageError> {
    let refused = |why: &dyn ToString| ImageError::Credentials {
        place: format!("the helper `docker-credential-{}`", escape(helper)),
        why: escape(&why.to_string()),
    };
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if !helper.chars().all(plain) {
        return Err(refused(&"its name is not plain"));
    }
    #[expect(clippy::disallowed_methods, reason = "a helper of the user's, not of the sandbox")]
    let mut command = Command::new(format!("docker-credential-{helper}"));
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| refused(&error))?;
    let conversation = async {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(format!("{server}\n").as_bytes()).await?;
        }
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
        }
        Ok((child.wait().await?, answer))
    };
    let ended = timeout(PATIENCE, conversation).await.map_err(|_| refused(&"it is silent"))?;
    let (status, answer) = ended.map_err(|error: std::io::Error| refused(&error))?;
    if !status.success() {
        // It has none for this registry; what is public can be had without.
        return Ok(None);
    }
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|_| refused(&"its answer is not understood"))?;
    Ok(Some(match answer.username.as_str() {
        "<token>" => Credentials::Identity(Secret::new(answer.secret)),
        name => basic(name, &answer.secret),
    }))
}
