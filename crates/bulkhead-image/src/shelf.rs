//! Images whose parts lie on this host, each under a name.

use std::io::Read;

use bulkhead_spec::Digest;

use crate::{
    ImageError,
    hash::{Hashed, digest_of},
    manifest::{Config, Descriptor, Document, LONGEST, Record, for_this_machine},
    store::Store,
    unpack::{Caps, unpack},
};

/// A place where parts of images lie.
pub(crate) trait Shelf {
    /// The part of that name.
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, ImageError>;
}

/// An image, found.
pub(crate) struct Found {
    /// Of its manifest, or of its configuration.
    pub(crate) digest: Digest,
    pub(crate) config: Config,
    /// For each layer its part, and what that part must be where somebody said.
    pub(crate) parts: Vec<(String, Option<Descriptor>)>,
}

/// The name of the part with that digest, in a layout.
pub(crate) fn blob(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// A whole part that is small.
pub(crate) fn read(shelf: &impl Shelf, name: &str) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    let part = shelf.open(name)?;
    part.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(ImageError::system(format!("read `{}`", bulkhead_spec::escape(name))))?;
    if LONGEST < bytes.len() as u64 {
        return Err(ImageError::malformed("document")("it is too long"));
    }
    Ok(bytes)
}

/// A small part that must have that digest.
fn read_blob(
    shelf: &impl Shelf,
    what: &'static str,
    expected: Digest,
) -> Result<Vec<u8>, ImageError> {
    let bytes = read(shelf, &blob(expected))?;
    check(what, expected, digest_of(&bytes))?;
    Ok(bytes)
}

/// Compares digests.
pub(crate) fn check(
    what: &'static str,
    expected: Digest,
    found: Digest,
) -> Result<(), ImageError> {
    if expected == found { Ok(()) } else { Err(ImageError::Digest { what, expected, found }) }
}

/// Follows `descriptor` to the image for this machine.
pub(crate) fn follow(shelf: &impl Shelf, descriptor: &Descriptor) -> Result<Found, ImageError> {
    let mut at = descriptor.clone();
    // An index of indexes is rare, and a chain of them is a trick.
    for _ in 0..4 {
        match Document::read(&read_blob(shelf, "a manifest", at.digest)?)? {
            Document::Index(all) => at = for_this_machine(&all)?.clone(),
            Document::Manifest { config, layers } => {
                let config =
                    Config::read(&read_blob(shelf, "a configuration", config.digest)?)?;
                let parts = layers.into_iter().map(|it| (blob(it.digest), Some(it))).collect();
                return Ok(Found { digest: at.digest, config, parts });
            }
        }
    }
    Err(ImageError::malformed("index")("it leads from index to index"))
}

/// Unpacks what of `found` is not in the store, and keeps it.
pub(crate) fn install(
    shelf: &impl Shelf,
    found: Found,
    store: &Store,
) -> Result<Record, ImageError> {
    if let Some(record) = store.record(found.digest) {
        return Ok(record);
    }
    let layers = found.config.layers();
    if layers.len() != found.parts.len() {
        return Err(ImageError::malformed("configuration")("it names other layers"));
    }
    for (layer, (part, descriptor)) in layers.iter().zip(&found.parts) {
        let Some(claim) = store.claim(*layer)? else { continue };
        claim.fill(|dir| {
            let mut packed = Hashed::new(shelf.open(part)?);
            unpack(*layer, &mut packed, dir, Caps::USUAL)?;
            match descriptor {
                None => Ok(()),
                Some(descriptor) => finish(packed, descriptor),
            }
        })?;
    }
    let record = found.config.record(found.digest);
    store.keep(&record, None)?;
    Ok(record)
}

/// Reads a packed layer to its end; it must be what was promised.
pub(crate) fn finish(
    packed: Hashed<impl Read>,
    descriptor: &Descriptor,
) -> Result<(), ImageError> {
    let (found, count) = packed.finish().map_err(ImageError::system("read a layer"))?;
    check("a layer", descriptor.digest, found)?;
    if count == descriptor.size {
        return Ok(());
    }
    Err(ImageError::malformed("manifest")("the size of a layer is another one"))
}
