//! A directory of the OCI image layout.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    path::Path,
};

use bulkhead_spec::escape;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::Deserialize;

use crate::{
    ImageError,
    manifest::{Descriptor, for_this_machine},
    shelf::{Found, Shelf, follow, read},
};

/// The annotation that names an image of a layout.
const NAME: &str = "org.opencontainers.image.ref.name";
/// The one by which container engines name it in full.
const FULL_NAME: &str = "io.containerd.image.name";

/// An open layout.
pub(crate) struct Layout {
    dir: OwnedFd,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

impl Layout {
    /// Opens the layout in `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Self, ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(dir, flags, Mode::empty());
        let dir = opened.map_err(io::Error::from).map_err(ImageError::system("open it"))?;
        Ok(Self { dir })
    }
}

impl Shelf for Layout {
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, ImageError> {
        // A layout may have come from anywhere: a link in it does not lead out of it.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat2(&self.dir, name, flags, Mode::empty(), resolve);
        let failed = || ImageError::system(format!("read `{name}` of the layout"));
        let file = File::from(file.map_err(io::Error::from).map_err(failed())?);
        if !file.metadata().map_err(failed())?.is_file() {
            return Err(failed()(io::Error::other("it is not a regular file")));
        }
        Ok(Box::new(file))
    }
}

/// The image `tag` of the layout on `shelf`, or the only one.
pub(crate) fn find(shelf: &impl Shelf, tag: Option<&str>) -> Result<Found, ImageError> {
    let bytes = read(shelf, "index.json")?;
    let index: Index =
        serde_json::from_slice(&bytes).map_err(ImageError::malformed("index"))?;
    follow(shelf, choose(&index.manifests, tag)?)
}

fn choose<'a>(all: &'a [Descriptor], tag: Option<&str>) -> Result<&'a Descriptor, ImageError> {
    let names = |it: &'a Descriptor| [NAME, FULL_NAME].map(|key| it.annotations.get(key));
    let Some(tag) = tag else {
        return match all {
            [] => Err(ImageError::Choice("it holds no image".to_owned())),
            [only] => Ok(only),
            // Without names they are one image for several machines.
            several if several.iter().all(|it| it.platform.is_some()) => {
                for_this_machine(several)
            }
            several => {
                let known: Vec<String> =
                    several.iter().flat_map(names).flatten().map(|it| escape(it)).collect();
                let known = known.join(", ");
                Err(ImageError::Choice(format!("it holds several images: {known}")))
            }
        };
    };
    let wanted: Vec<&Descriptor> =
        all.iter().filter(|it| names(it).into_iter().flatten().any(|it| it == tag)).collect();
    match wanted.as_slice() {
        [] => Err(ImageError::Choice(format!("it holds no image `{}`", escape(tag)))),
        [only] => Ok(only),
        several => {
            let several: Vec<Descriptor> = several.iter().map(|it| (*it).clone()).collect();
            let chosen = for_this_machine(&several)?.digest;
            let found = wanted.into_iter().find(|it| it.digest == chosen);
            found.ok_or_else(|| ImageError::Choice("it holds no image".to_owned()))
        }
    }
}
