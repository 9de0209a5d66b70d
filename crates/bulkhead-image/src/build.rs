//! Builds an image through a daemon: only what changed, and the same image from the same files.
//!
//! What the builder makes is kept under a name of its own as the cache for the next build; what is
//! used is a copy without the marks of when it was made.

mod buildkit;
mod progress;

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
};

use bollard::{
    Docker, body_full,
    errors::Error as DaemonError,
    query_parameters::{
        BuildImageOptionsBuilder, BuilderVersion, CreateImageOptionsBuilder,
        ImportImageOptionsBuilder, RemoveImageOptionsBuilder, TagImageOptionsBuilder,
    },
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use crate::{
    context::{Context, DOCKERFILE},
    ignore::Ignore,
    normal::{Rewrite, Shared, hex, normalise},
    review::{Refused, Reviewed, review},
};
pub use progress::Progress;

/// The label of everything that we make.
pub const MANAGED: &str = "io.bulkhead.managed";
/// The label that says what an image was made from.
pub const KEY: &str = "io.bulkhead.key";
/// The value of [`MANAGED`] for what is only a cache.
pub(crate) const CACHE: &str = "cache";
/// Changes whenever the same files would give another image.
const RECIPE: &str = "bulkhead image 1";

/// What to build.
#[derive(Clone, Debug)]
pub struct Request {
    /// The text of the Dockerfile.
    pub dockerfile: String,
    /// The directory that it copies from.
    pub dir: PathBuf,
    /// The patterns of its `.dockerignore`.
    pub ignore: String,
    /// Which stage; the sandbox's or the last if not said.
    pub target: Option<String>,
    /// Values for its arguments.
    pub args: BTreeMap<String, String>,
    /// What the image is called, without a tag.
    pub name: String,
    /// What the steps of the build reach.
    pub network: BuildNetwork,
    /// Whether steps that were done before are done again.
    pub cache: Cache,
    /// Whether a base that is not here is fetched by the daemon.
    pub pull: PullBase,
}

/// What the steps of a build reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuildNetwork {
    /// Nothing.
    #[default]
    None,
    /// What containers of the daemon reach.
    Daemon,
}

impl BuildNetwork {
    fn mode(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Daemon => "default",
        }
    }
}

/// The daemon that builds.
#[derive(Clone, Copy, Debug)]
pub struct Daemon<'a> {
    /// A client for it.
    pub docker: &'a Docker,
    /// Where it is.
    pub engine: &'a Engine,
}

/// Where a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// At a socket of this machine.
    Socket(PathBuf),
    /// At a host and port, without encryption.
    Tcp(String),
}

/// Whether steps that were done before are done again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// They are not.
    #[default]
    Used,
    /// They are.
    Ignored,
}

/// Whether a base that is not here is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullBase {
    /// It is.
    #[default]
    Missing,
    /// Only what is here is used.
    Never,
}

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its name and tag.
    pub tag: String,
    /// Its id.
    pub id: String,
    /// Whether it was there already.
    pub reused: bool,
}

/// Why an image was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The Dockerfile does what is not allowed.
    #[error("the Dockerfile is not built")]
    Refused(#[from] Refused),
    /// There is no such stage.
    #[error("the Dockerfile has no stage `{}`", bulkhead_spec::escape(.0))]
    NoStage(String),
    /// The files could not be read.
    #[error("could not pack the files that the build copies")]
    Context(#[source] io::Error),
    /// A base is not here.
    #[error("the base image `{image}` is not here and could not be fetched")]
    Base {
        /// Which.
        image: String,
        /// What the daemon says.
        #[source]
        source: Box<DaemonError>,
    },
    /// A step failed.
    #[error("the build failed: {said}")]
    Step {
        /// What the builder says, escaped.
        said: String,
        /// The last lines before that, escaped.
        output: Vec<String>,
    },
    /// The daemon did not do what it was asked.
    #[error("the daemon could not {doing}")]
    Daemon {
        /// What it was asked.
        doing: &'static str,
        /// What it says.
        #[source]
        source: Box<DaemonError>,
    },
    /// What the daemon exported could not be written again.
    #[error("could not make the image reproducible")]
    Normal(#[source] io::Error),
}

fn refused(doing: &'static str) -> impl Fn(DaemonError) -> BuildError {
    move |source| BuildError::Daemon { doing, source: Box::new(source) }
}

/// Builds, unless the same was built before.
///
/// # Guarantees
/// The same files, target, arguments and bases give the same id on every machine, as far as the
/// steps of the Dockerfile themselves write the same bytes.
pub async fn build(
    daemon: Daemon<'_>,
    request: &Request,
    say: &mut dyn FnMut(Progress),
) -> Result<Built, BuildError> {
    let docker = daemon.docker;
    let reviewed = review(&request.dockerfile)?;
    let target = target(&reviewed, request.target.as_deref())?;
    let bases = bases(docker, &reviewed, target, request.pull, say).await?;
    let ignore = Ignore::parse(&request.ignore);
    let sources = reviewed.sources(target);
    let dockerfile = marked(&request.dockerfile);
    let context = Context::pack(&request.dir, &dockerfile, &sources, &ignore)
        .map_err(BuildError::Context)?;
    let key = key(request, target, &context, &bases);
    let tag = format!("{}:{}", request.name, key.get(..16).unwrap_or(&key));
    if request.cache == Cache::Used
        && let Some(id) = there(docker, &tag, &key).await?
    {
        return Ok(Built { tag, id, reused: true });
    }
    say(Progress::Sent { files: context.files, bytes: context.bytes.len() });
    let raw = format!("{}:cache", request.name);
    let before = docker.inspect_image(&raw).await.ok().and_then(|it| it.id);
    make(&daemon, request, &Making { reviewed: &reviewed, target, raw: &raw }, context, say)
        .await?;
    say(Progress::Normalising);
    let labels = [(MANAGED, "image"), (KEY, key.as_str())];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let bases = bases.into_values().map(|it| it.layers).collect();
    let rewrite = Rewrite { tag: tag.clone(), labels, bases, shared: Shared::Named };
    reload(docker, &raw, &rewrite).await?;
    // What is loaded has no time of its own here; a name that is given has.
    let (name, version) = tag.rsplit_once(':').unwrap_or((&tag, "latest"));
    let options = TagImageOptionsBuilder::default().repo(name).tag(version).build();
    docker.tag_image(&tag, Some(options)).await.map_err(refused("name the image"))?;
    forget(docker, &raw, before).await;
    let id = there(docker, &tag, &key).await?;
    let id =
        id.ok_or_else(|| BuildError::Normal(io::Error::other("it is not in the daemon")))?;
    Ok(Built { tag, id, reused: false })
}

/// Has every stage say that it is ours: what is left of steps can be found and removed then.
fn marked(dockerfile: &str) -> String {
    let mut lines = Vec::new();
    for line in dockerfile.lines() {
        lines.push(line.to_owned());
        let word = line.split_whitespace().next().unwrap_or_default();
        if word.eq_ignore_ascii_case("from") && !line.trim_end().ends_with('\\') {
            lines.push(format!("LABEL {MANAGED}={CACHE}"));
        }
    }
    lines.join("\n") + "\n"
}

fn target<'a>(
    reviewed: &'a Reviewed,
    asked: Option<&'a str>,
) -> Result<Option<&'a str>, BuildError> {
    match asked {
        Some(name) if !reviewed.has_stage(name) => Err(BuildError::NoStage(name.to_owned())),
        Some(name) => Ok(Some(name)),
        None => Ok(reviewed.default_target()),
    }
}

/// An image that is built on.
struct BaseImage {
    id: String,
    layers: Vec<String>,
}

async fn bases(
    docker: &Docker,
    reviewed: &Reviewed,
    target: Option<&str>,
    pull: PullBase,
    say: &mut dyn FnMut(Progress),
) -> Result<BTreeMap<String, BaseImage>, BuildError> {
    let mut found = BTreeMap::new();
    for image in reviewed.bases(target) {
        let about = match (docker.inspect_image(&image).await, pull) {
            (Ok(about), _) => about,
            (Err(source), PullBase::Never) => {
                return Err(BuildError::Base { image, source: Box::new(source) });
            }
            (Err(_), PullBase::Missing) => {
                say(Progress::Pulling(image.clone()));
                fetch(docker, &image).await?;
                docker.inspect_image(&image).await.map_err(refused("look at a base image"))?
            }
        };
        let layers = about.root_fs.and_then(|it| it.layers).unwrap_or_default();
        let base = BaseImage { id: about.id.unwrap_or_default(), layers };
        found.insert(image, base);
    }
    Ok(found)
}

async fn fetch(docker: &Docker, image: &str) -> Result<(), BuildError> {
    let options = CreateImageOptionsBuilder::default().from_image(image).build();
    let mut lines = docker.create_image(Some(options), None, None);
    while let Some(line) = lines.next().await {
        line.map_err(|source| BuildError::Base {
            image: image.to_owned(),
            source: Box::new(source),
        })?;
    }
    Ok(())
}

/// What an image is made from, in one word.
fn key(
    request: &Request,
    target: Option<&str>,
    context: &Context,
    bases: &BTreeMap<String, BaseImage>,
) -> String {
    let mut hash = Sha256::new();
    // Each part with its length, so that no two lists of parts look alike.
    let mut put = |part: &[u8]| {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    };
    put(RECIPE.as_bytes());
    put(target.unwrap_or_default().as_bytes());
    put(&context.bytes);
    for (name, value) in &request.args {
        put(name.as_bytes());
        put(value.as_bytes());
    }
    for (image, base) in bases {
        put(image.as_bytes());
        put(base.id.as_bytes());
    }
    hex(&hash.finalize())
}

/// The id of the image `tag`, if it was made from what `key` says.
async fn there(docker: &Docker, tag: &str, key: &str) -> Result<Option<String>, BuildError> {
    match docker.inspect_image(tag).await {
        Ok(about) => {
            let labels = about.config.and_then(|it| it.labels).unwrap_or_default();
            Ok(about.id.filter(|_| labels.get(KEY).is_some_and(|it| it == key)))
        }
        Err(DaemonError::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(refused("look for the image")(error)),
    }
}

/// What is being made.
struct Making<'a> {
    reviewed: &'a Reviewed,
    target: Option<&'a str>,
    raw: &'a str,
}

async fn make(
    daemon: &Daemon<'_>,
    request: &Request,
    making: &Making<'_>,
    context: Context,
    say: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let bytes = Bytes::from(context.bytes);
    if making.reviewed.needs_buildkit {
        return buildkit::make(daemon.engine, &query(request, making), bytes, say).await;
    }
    let args: HashMap<&str, &str> =
        request.args.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let options = BuildImageOptionsBuilder::default()
        .dockerfile(DOCKERFILE)
        .t(making.raw)
        .networkmode(request.network.mode())
        .nocache(request.cache == Cache::Ignored)
        .rm(true)
        .forcerm(true)
        .buildargs(&args)
        .target(making.target.unwrap_or_default())
        .version(BuilderVersion::BuilderV1)
        .build();
    let mut lines = daemon.docker.build_image(options, None, Some(body_full(bytes)));
    let mut heard = progress::Heard::default();
    while let Some(line) = lines.next().await {
        match line {
            Ok(info) => heard.take(&info.stream.or(info.status).unwrap_or_default(), say),
            Err(error) => return Err(heard.failed(&error)),
        }
    }
    Ok(())
}

/// The same for `BuildKit`.
fn query(request: &Request, making: &Making<'_>) -> Vec<(&'static str, String)> {
    let args = serde_json::json!(request.args);
    let mut query = vec![
        ("version", "2".to_owned()),
        ("dockerfile", DOCKERFILE.to_owned()),
        ("t", making.raw.to_owned()),
        ("networkmode", request.network.mode().to_owned()),
        ("rm", "1".to_owned()),
        ("forcerm", "1".to_owned()),
        ("buildargs", args.to_string()),
    ];
    query.extend(making.target.map(|it| ("target", it.to_owned())));
    if request.cache == Cache::Ignored {
        query.push(("nocache", "1".to_owned()));
    }
    query
}

/// Takes the image out of the daemon and puts it back without the marks of its making.
async fn reload(docker: &Docker, raw: &str, rewrite: &Rewrite) -> Result<(), BuildError> {
    let mut saved = tempfile::tempfile().map_err(BuildError::Normal)?;
    let mut parts = docker.export_image(raw);
    while let Some(part) = parts.next().await {
        let part = part.map_err(refused("export the image"))?;
        saved.write_all(&part).map_err(BuildError::Normal)?;
    }
    let mut packed = |shared: Shared| {
        let rewrite = Rewrite { shared, ..rewrite.clone() };
        let mut packed = tempfile::tempfile()?;
        normalise(&mut saved, &rewrite, &mut packed)?;
        Ok(packed)
    };
    let small = packed(Shared::Named).map_err(BuildError::Normal)?;
    if load(docker, small).await.is_ok() && docker.inspect_image(&rewrite.tag).await.is_ok() {
        return Ok(());
    }
    let whole = packed(Shared::Written).map_err(BuildError::Normal)?;
    load(docker, whole).await
}

/// Gives the daemon an image that was written as `docker save` does.
pub async fn load(docker: &Docker, mut file: File) -> Result<(), BuildError> {
    io::Seek::rewind(&mut file).map_err(BuildError::Normal)?;
    let parts = futures_util::stream::unfold(file, |mut file| async move {
        let mut part = vec![0; 1 << 20];
        match io::Read::read(&mut file, &mut part) {
            Ok(0) => None,
            Ok(read) => {
                part.truncate(read);
                Some((Ok(Bytes::from(part)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    let options = ImportImageOptionsBuilder::default().quiet(true).build();
    let mut lines = docker.import_image_stream(options, parts, None);
    while let Some(line) = lines.next().await {
        line.map_err(refused("load the image"))?;
    }
    Ok(())
}

/// Removes the cache of an earlier build, with the steps that no image needs any more.
async fn forget(docker: &Docker, raw: &str, before: Option<String>) {
    let now = docker.inspect_image(raw).await.ok().and_then(|it| it.id);
    if let Some(before) = before.filter(|it| Some(it) != now.as_ref()) {
        let options = RemoveImageOptionsBuilder::default().build();
        // Still in use by something of the user's; then it stays.
        drop(docker.remove_image(&before, Some(options), None).await);
    }
}
