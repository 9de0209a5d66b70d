//! The one door: from a wish for an image to directories on this host.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use bulkhead_spec::{Digest, ImageFacts, ImageRef, ImageSource, Pull, Reference};
use tokio::task::spawn_blocking;

use crate::{
    ImageError, InUse,
    archive::Archive,
    credentials,
    daemon::Daemon,
    layout::{self, Layout},
    managed::Managed,
    manifest::Record,
    registry::Registry,
    shelf::install,
    store::Store,
};

/// Where images come from and go to, on this host.
#[derive(Clone)]
pub struct Settings {
    /// The directory that is the store.
    pub cache: PathBuf,
    /// Files that hold credentials for registries, in the form of Docker's `config.json`.
    pub credentials: Vec<PathBuf>,
    /// Sockets at which a container engine may listen.
    pub sockets: Vec<PathBuf>,
    /// Is told what takes long.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Gets images, and keeps them.
#[derive(Clone)]
pub struct Images {
    settings: Settings,
}

impl std::fmt::Debug for Images {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Images").field("cache", &self.settings.cache).finish_non_exhaustive()
    }
}

impl Images {
    /// Touches nothing until an image is wanted.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Sees to it that `image` is in the store, and tells what it says about itself.
    ///
    /// # Cancellation
    /// What was fetched in part is removed by the next sweep.
    pub async fn obtain(&self, image: &ImageRef) -> Result<ImageFacts, ImageError> {
        let store = Store::open(&self.settings.cache)?;
        let record = match &image.source {
            ImageSource::Registry(name) => self.pulled(name, image.pull, &store).await?,
            ImageSource::Daemon(name) => self.exported(name, &store).await?,
            ImageSource::Layout { dir, tag } => {
                let (dir, tag) = (dir.as_path().to_owned(), tag.clone());
                aside(move || {
                    let layout = Layout::open(&dir)?;
                    install(&layout, layout::find(&layout, tag.as_deref())?, &store)
                })
                .await?
            }
            ImageSource::Archive { file, name } => {
                let (file, name) = (file.as_path().to_owned(), name.clone());
                aside(move || {
                    let file = File::open(&file).map_err(ImageError::system("open it"))?;
                    let archive = Archive::open(file, &store)?;
                    install(&archive, archive.find(name.as_deref())?, &store)
                })
                .await?
            }
        };
        Ok(record.facts(&image.source.to_string()))
    }

    /// The layers of an image that was obtained; they stay while the answer lives.
    pub fn hold(&self, digest: Digest) -> Result<InUse, ImageError> {
        let store = Store::open(&self.settings.cache)?;
        let record = store.record(digest).ok_or(ImageError::Absent)?;
        store.hold(&record)
    }

    /// Removes what a crash left in the store, and tells what it was.
    pub fn sweep(&self) -> io::Result<Vec<String>> {
        if !self.settings.cache.is_dir() {
            return Ok(Vec::new());
        }
        Store::open(&self.settings.cache).map_err(io::Error::other)?.sweep()
    }

    /// Every image in the store.
    pub fn kept(&self) -> Result<Vec<Managed>, ImageError> {
        if !self.settings.cache.is_dir() {
            return Ok(Vec::new());
        }
        let store = Store::open(&self.settings.cache)?;
        store.list().map_err(ImageError::system("look at the images that are kept"))
    }

    /// Lets go of the image `id` and of what no other needs; what a sandbox uses stays.
    pub fn forget(&self, id: &str) -> Result<(), ImageError> {
        let store = Store::open(&self.settings.cache)?;
        let digest = id.parse().map_err(io::Error::other);
        let forgotten = digest.and_then(|digest| store.forget(digest));
        forgotten.map_err(ImageError::system(format!("remove {}", bulkhead_spec::escape(id))))
    }

    async fn pulled(
        &self,
        name: &Reference,
        pull: Pull,
        store: &Store,
    ) -> Result<Record, ImageError> {
        match (pull, store.named(name)) {
            (Pull::Never | Pull::Missing, Some(record)) => return Ok(record),
            (Pull::Never, None) => return Err(ImageError::Absent),
            (Pull::Missing, None) | (Pull::Always, _) => {}
        }
        let found = credentials::find(&self.settings.credentials, name.registry()).await?;
        let registry = Registry::open(name, found).await?;
        let remote = registry.find(name).await?;
        let record = if let Some(record) = store.record(remote.digest) {
            record
        } else {
            (self.settings.tell)(&format!("pulling {name}"));
            registry.fetch(remote, store).await?
        };
        store.keep(&record, Some(name))?;
        Ok(record)
    }

    async fn exported(&self, name: &Reference, store: &Store) -> Result<Record, ImageError> {
        let daemon = Daemon::find(&self.settings.sockets)?;
        let id = daemon.inspect(name).await?;
        if let Some(record) = store.record(id) {
            return Ok(record);
        }
        (self.settings.tell)(&format!("copying {name} from the container engine"));
        let file = daemon.export(name, store).await?;
        let store = store.clone();
        aside(move || {
            let archive = Archive::open(file, &store)?;
            install(&archive, archive.find(None)?, &store)
        })
        .await
    }
}

/// Does what takes long on a thread that may wait.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    let done = spawn_blocking(work).await;
    done.map_err(io::Error::other).map_err(ImageError::system("unpack an image"))?
}
