//! Fetches images from registries.
//!
//! Invariant: credentials go to the registry that they are for and to the token service that it
//! names, never to where a redirect leads.

mod challenge;
mod layers;

use bulkhead_spec::{Digest, Reference, Secret, escape};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::sync::Mutex;

use self::challenge::Challenge;
use crate::{
    ImageError,
    credentials::Credentials,
    hash::digest_of,
    http::{Client, NoAnswer, Origin, Reach, whole},
    manifest::{ACCEPTED, Config, Descriptor, Document, LONGEST, for_this_machine},
    shelf::check,
};

/// How often a registry may send us elsewhere.
const MOST_REDIRECTS: usize = 5;
/// An error or a token is shorter than this.
const LONGEST_WORD: u64 = 1 << 16;

/// One repository of a registry.
pub(crate) struct Registry {
    client: Client,
    /// `http://host` or `https://host`.
    base: String,
    origin: Origin,
    /// As the user calls it.
    name: String,
    repository: String,
    credentials: Option<Credentials>,
    /// What the registry wants to see, once it has said so.
    authorization: Mutex<Option<Secret>>,
}

/// An image of a registry, of which only the layers are still there.
pub(crate) struct Remote {
    pub(crate) digest: Digest,
    pub(crate) config: Config,
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Complaints {
    errors: Vec<Complaint>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Registry {
    /// Finds out how the registry of `reference` is talked to.
    pub(crate) async fn open(
        reference: &Reference,
        credentials: Option<Credentials>,
    ) -> Result<Self, ImageError> {
        let name = reference.registry();
        let host = if name == "docker.io" { "registry-1.docker.io" } else { name };
        let client = Client::default();
        let no_answer = |error: NoAnswer| unreachable_at(name, &error);
        let secured = format!("https://{host}");
        let origin = origin_of(&secured).map_err(no_answer)?;
        let mut base = secured;
        // Without encryption only on this machine, where nobody listens in.
        if origin.is_loopback() {
            let ask = request(Method::GET, &format!("{base}/v2/")).map_err(no_answer)?;
            match client.send(ask, Reach::Anywhere).await {
                Err(error) if error.unencrypted => base = format!("http://{host}"),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(Self {
            client,
            origin: origin_of(&base).map_err(no_answer)?,
            base,
            name: name.to_owned(),
            repository: reference.repository().to_owned(),
            credentials,
            authorization: Mutex::new(None),
        })
    }

    /// Finds the image for this machine that `reference` stands for.
    pub(crate) async fn find(&self, reference: &Reference) -> Result<Remote, ImageError> {
        let pinned = reference.digest();
        let wanted = pinned.map(|it| it.to_string());
        let wanted = wanted.as_deref().or(reference.tag()).unwrap_or("latest");
        let mut bytes = self.manifest(wanted).await?;
        let mut digest = digest_of(&bytes);
        if let Some(pinned) = pinned {
            check("the manifest", pinned, digest)?;
        }
        // An index of indexes is rare, and a chain of them is a trick.
        for _ in 0..4 {
            match Document::read(&bytes)? {
                Document::Index(all) => {
                    digest = for_this_machine(&all)?.digest;
                    bytes = self.manifest(&digest.to_string()).await?;
                    check("the manifest", digest, digest_of(&bytes))?;
                }
                Document::Manifest { config, layers } => {
                    let text = self.small(&format!("blobs/{}", config.digest)).await?;
                    check("the configuration", config.digest, digest_of(&text))?;
                    let config = Config::read(&text)?;
                    if config.layers().len() != layers.len() {
                        let why = "it names other layers than the manifest";
                        return Err(ImageError::malformed("configuration")(why));
                    }
                    return Ok(Remote { digest, config, layers });
                }
            }
        }
        Err(ImageError::malformed("index")("it leads from index to index"))
    }

    async fn manifest(&self, wanted: &str) -> Result<Vec<u8>, ImageError> {
        self.small(&format!("manifests/{wanted}")).await
    }

    async fn small(&self, path: &str) -> Result<Vec<u8>, ImageError> {
        let answer = self.get(path).await?;
        whole(answer.into_body(), LONGEST).await.map_err(|error| self.unreachable(&error))
    }

    /// What is at `path` of the repository; asks again with credentials if it must.
    async fn get(&self, path: &str) -> Result<Response<Incoming>, ImageError> {
        let address = format!("{}/v2/{}/{path}", self.base, self.repository);
        let answer = self.follow(&address).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return self.checked(answer).await;
        }
        let challenge = Challenge::read(answer.headers());
        let authorization = match challenge {
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, &service).await?,
            Some(Challenge::Basic) => match &self.credentials {
                Some(Credentials::Basic(basic)) => {
                    Secret::new(format!("Basic {}", basic.expose()))
                }
                Some(Credentials::Identity(_)) | None => return self.checked(answer).await,
            },
            None => return self.checked(answer).await,
        };
        *self.authorization.lock().await = Some(authorization);
        let answer = self.follow(&address).await?;
        self.checked(answer).await
    }

    /// Asks, and goes where the registry sends us, without credentials if that is another server.
    async fn follow(&self, address: &str) -> Result<Response<Incoming>, ImageError> {
        let failed = |error: NoAnswer| self.unreachable(&error);
        let mut address: Uri = address.parse().map_err(NoAnswer::new).map_err(failed)?;
        for _ in 0..MOST_REDIRECTS {
            let origin = Origin::of(&address).map_err(failed)?;
            let mut ask = request(Method::GET, &address.to_string()).map_err(failed)?;
            ask.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
            if origin == self.origin
                && let Some(secret) = &*self.authorization.lock().await
            {
                ask.headers_mut().insert(header::AUTHORIZATION, sensitive(secret, failed)?);
            }
            let answer = self.client.send(ask, self.reach(&origin)).await.map_err(failed)?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            address = next(&address, &answer).map_err(failed)?;
            if self.origin.https && address.scheme_str() != Some("https") {
                return Err(failed(NoAnswer::new("it sends us to an unencrypted address")));
            }
        }
        Err(failed(NoAnswer::new("it sends us from one address to the next")))
    }

    /// The registry was named by the user; other servers are named by the registry.
    fn reach(&self, origin: &Origin) -> Reach {
        if *origin == self.origin || self.origin.is_loopback() {
            Reach::Anywhere
        } else {
            Reach::Elsewhere
        }
    }

    /// Fetches a token that lets us pull from the repository, and nothing else.
    async fn token(&self, realm: &str, service: &str) -> Result<Secret, ImageError> {
        let failed = |error: NoAnswer| self.unreachable(&error);
        let origin = origin_of(realm).map_err(failed)?;
        if self.origin.https && !origin.https {
            return Err(failed(NoAnswer::new("its token service is not encrypted")));
        }
        let scope = format!("repository:{}:pull", self.repository);
        let ask = challenge::token_request(realm, service, &scope, self.credentials.as_ref());
        let ask = ask.map_err(failed)?;
        let answer = self.client.send(ask, self.reach(&origin)).await.map_err(failed)?;
        let answer = self.checked(answer).await?;
        let text = whole(answer.into_body(), LONGEST_WORD).await.map_err(failed)?;
        let token: Token =
            serde_json::from_slice(&text).map_err(ImageError::malformed("token"))?;
        let token = token.token.or(token.access_token).filter(|it| !it.is_empty());
        let token = token.ok_or_else(|| failed(NoAnswer::new("it gave no token")))?;
        Ok(Secret::new(format!("Bearer {token}")))
    }

    /// The answer if it is one, else what the registry complains about.
    async fn checked(
        &self,
        answer: Response<Incoming>,
    ) -> Result<Response<Incoming>, ImageError> {
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let text = whole(answer.into_body(), LONGEST_WORD).await.unwrap_or_default();
        let complaints: Option<Complaints> = serde_json::from_slice(&text).ok();
        let first = complaints.and_then(|it| it.errors.into_iter().next());
        let why = first.map(|it| format!("{} {}", it.code, it.message)).unwrap_or_default();
        let why: String = why.trim().chars().take(200).collect();
        Err(ImageError::Refused { registry: self.name.clone(), status, why: escape(&why) })
    }

    fn unreachable(&self, error: &NoAnswer) -> ImageError {
        unreachable_at(&self.name, error)
    }
}

fn unreachable_at(registry: &str, error: &NoAnswer) -> ImageError {
    ImageError::Unreachable { registry: registry.to_owned(), why: error.to_string() }
}

fn sensitive(
    secret: &Secret,
    failed: impl Fn(NoAnswer) -> ImageError,
) -> Result<HeaderValue, ImageError> {
    let value = HeaderValue::from_str(secret.expose());
    let mut value =
        value.map_err(|_| failed(NoAnswer::new("its token cannot be sent in a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn origin_of(address: &str) -> Result<Origin, NoAnswer> {
    Origin::of(&address.parse().map_err(NoAnswer::new)?)
}

/// A request without a body.
fn request(method: Method, address: &str) -> Result<Request<Full<Bytes>>, NoAnswer> {
    let uri: Uri = address.parse().map_err(NoAnswer::new)?;
    let agent = concat!("bulkhead/", env!("CARGO_PKG_VERSION"));
    Request::builder()
        .method(method)
        .uri(uri)
        .header(header::USER_AGENT, agent)
        .body(Full::default())
        .map_err(NoAnswer::new)
}

/// Where `answer` to `address` leads.
fn next(address: &Uri, answer: &Response<Incoming>) -> Result<Uri, NoAnswer> {
    let place = answer.headers().get(header::LOCATION).and_then(|it| it.to_str().ok());
    let place = place.ok_or_else(|| NoAnswer::new("it sends us nowhere"))?;
    let whole = match (place.starts_with("//"), place.starts_with('/'), address.scheme_str()) {
        (true, _, Some(scheme)) => format!("{scheme}:{place}"),
        (false, true, Some(scheme)) => {
            let authority = address.authority().map_or("", |it| it.as_str());
            format!("{scheme}://{authority}{place}")
        }
        _ => place.to_owned(),
    };
    whole.parse().map_err(NoAnswer::new)
}
