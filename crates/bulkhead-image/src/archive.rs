//! A tar file of images, as `docker save` writes it, or of an OCI layout.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
};

use bulkhead_spec::{Digest, escape};
use serde::Deserialize;

use crate::{
    ImageError,
    hash::digest_of,
    layout,
    manifest::Config,
    shelf::{Found, Shelf, check, read},
    store::Store,
    unpack::{Caps, Compressed, Kind, Limited, Members},
};

/// More parts than any archive of images has.
const MOST_PARTS: usize = 100_000;

/// An open archive, and where its parts are.
pub(crate) struct Archive {
    file: File,
    parts: HashMap<String, Part>,
}

enum Part {
    Here {
        start: u64,
        size: u64,
    },
    /// Older engines write a layer once and link to it.
    Link(String),
}

/// One line of `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Archive {
    /// Looks through `file`; one that is compressed is unpacked to a file without a name first.
    pub(crate) fn open(file: File, store: &Store) -> Result<Self, ImageError> {
        let failed = || ImageError::system("read the archive");
        let mut file = file;
        let mut magic = [0; 4];
        let count = file.read_at(&mut magic, 0).map_err(failed())?;
        let magic = magic.get(..count).unwrap_or_default();
        if magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd] {
            let plain = Compressed::open(&file).map_err(failed())?;
            let mut plain = Limited::new(plain, Caps::USUAL);
            let mut copy = store.nameless()?;
            io::copy(&mut plain, &mut copy).map_err(failed())?;
            file = copy;
        }
        file.seek(SeekFrom::Start(0)).map_err(failed())?;
        let parts = survey(&file).map_err(failed())?;
        Ok(Self { file, parts })
    }

    /// The image `name` of the archive, or the only one.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Found, ImageError> {
        if !self.parts.contains_key("manifest.json") {
            if !self.parts.contains_key("index.json") {
                let why = "it is neither an archive of `docker save` nor an OCI layout";
                return Err(ImageError::Choice(why.to_owned()));
            }
            return layout::find(self, name);
        }
        let bytes = read(self, "manifest.json")?;
        let all: Vec<Entry> =
            serde_json::from_slice(&bytes).map_err(ImageError::malformed("manifest"))?;
        let entry = choose(all, name)?;
        let config = read(self, &entry.config)?;
        let digest = digest_of(&config);
        if let Some(promised) = promised(&entry.config) {
            check("the configuration", promised, digest)?;
        }
        let config = Config::read(&config)?;
        let parts = entry.layers.into_iter().map(|it| (it, None)).collect();
        Ok(Found { digest, config, parts })
    }
}

impl Shelf for Archive {
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, ImageError> {
        let mut name = name.to_owned();
        for _ in 0..4 {
            match self.parts.get(&name) {
                Some(Part::Here { start, size }) => {
                    let part = Stretch { file: &self.file, at: *start, left: *size };
                    return Ok(Box::new(io::BufReader::with_capacity(1 << 16, part)));
                }
                Some(Part::Link(to)) => name.clone_from(to),
                None => break,
            }
        }
        Err(ImageError::Choice(format!("its part `{}` is missing", escape(&name))))
    }
}

/// A stretch of a file, read without moving anybody else.
struct Stretch<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Stretch<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let count = self.file.read_at(buffer, self.at)?;
        if count == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Where each part is. Reads headers and jumps over the rest.
fn survey(file: &File) -> io::Result<HashMap<String, Part>> {
    let mut parts = HashMap::new();
    let mut members = Members::new(file);
    while let Some(member) = members.next()? {
        let Ok(path) = String::from_utf8(member.path) else { continue };
        let path = path.trim_start_matches("./").to_owned();
        let part = match member.kind {
            Kind::File => Part::Here { start: members.jump()?, size: member.size },
            Kind::Symlink | Kind::HardLink => {
                let Ok(to) = String::from_utf8(member.link) else { continue };
                let Some(to) = beside(&path, &to, member.kind) else { continue };
                Part::Link(to)
            }
            Kind::Directory | Kind::Fifo | Kind::Device | Kind::Unknown => continue,
        };
        parts.insert(path, part);
        if MOST_PARTS < parts.len() {
            return Err(io::Error::other("it has too many parts"));
        }
    }
    Ok(parts)
}

/// What a link at `path` leads to, as a name of the archive.
fn beside(path: &str, to: &str, kind: Kind) -> Option<String> {
    if kind == Kind::HardLink {
        return Some(to.to_owned());
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

fn choose(all: Vec<Entry>, name: Option<&str>) -> Result<Entry, ImageError> {
    let tags = |it: &Entry| it.repo_tags.clone().unwrap_or_default();
    let known: Vec<String> = all.iter().flat_map(tags).map(|it| escape(&it)).collect();
    let known = known.join(", ");
    let count = all.len();
    let Some(name) = name else {
        return match (all.into_iter().next(), count) {
            (Some(only), 1) => Ok(only),
            (Some(_), _) => {
                Err(ImageError::Choice(format!("it holds several images: {known}")))
            }
            (None, _) => Err(ImageError::Choice("it holds no image".to_owned())),
        };
    };
    let same = |tag: &String| {
        let latest = || format!("{name}:latest") == *tag;
        tag == name || (!name.contains(':') && latest())
    };
    let found = all.into_iter().find(|it| tags(it).iter().any(same));
    found.ok_or_else(|| {
        ImageError::Choice(format!("it holds no image `{}`; it has {known}", escape(name)))
    })
}

/// The digest that the name of a configuration promises.
fn promised(name: &str) -> Option<Digest> {
    let hex = name.rsplit('/').next()?.trim_end_matches(".json");
    format!("sha256:{hex}").parse().ok()
}
