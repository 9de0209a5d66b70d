//! Writes a layer into a directory of its own, whatever the layer says.
//!
//! A layer is a tar stream from somebody else. Its names are taken apart and walked from the
//! directory's descriptor, one parent at a time, and a symbolic link is never a way: an honest
//! layer has no entry below one. What an overlay needs to know (removed names, directories that
//! hide those below) is said in the kernel's words, and only by us.
//!
//! Invariant: nothing outside of the directory is opened, linked or changed.

mod compression;
mod members;
mod name;
mod tree;

use std::io::{self, Read};

use bulkhead_spec::{Digest, escape_bytes};
use rustix::fd::BorrowedFd;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use compression::{Compressed, Limited};
pub(crate) use members::{Kind, Member, Members};

use self::{
    name::{Name, Refusal},
    tree::Tree,
};
use crate::{ImageError, hash::Hashed};

/// What one layer may hold at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Bytes, unpacked.
    pub(crate) bytes: u64,
    /// Files, directories and links.
    pub(crate) entries: u64,
    /// Unpacked bytes for each packed one, once there are `unasked`: a few zeros compress well.
    pub(crate) ratio: u64,
    /// See there.
    pub(crate) unasked: u64,
}

impl Caps {
    /// More than honest layers have: the largest in use are of some ten gigabytes and some
    /// hundred thousand files.
    pub(crate) const USUAL: Self =
        Self { bytes: 64 << 30, entries: 2_000_000, ratio: 250, unasked: 256 << 20 };
}

/// Unpacks the layer that is to have the digest `layer` into the empty directory `into`.
///
/// `packed` may be compressed. It is read to its end, and what came out has the digest that was
/// promised, or there is an error.
pub(crate) fn unpack(
    layer: Digest,
    packed: impl Read,
    into: BorrowedFd<'_>,
    caps: Caps,
) -> Result<(), ImageError> {
    let read = ImageError::system("read a layer");
    let plain = Compressed::open(packed).map_err(read)?;
    let limited = Limited::new(plain, caps);
    let mut members = Members::new(Hashed::new(limited));
    let mut tree = Tree::new(into)?;
    let mut count = 0;
    while let Some(member) = members.next().map_err(|error| broken(layer, &error))? {
        count += 1;
        let placed = if caps.entries < count {
            Err(Trouble::Refused(Refusal("it has too many entries")))
        } else {
            place(&mut tree, &member, &mut members.content())
        };
        placed.map_err(|trouble| trouble.at(layer, &member.path))?;
    }
    let finished = members.into_inner().finish();
    let (found, _) = finished.map_err(|error| broken(layer, &error))?;
    if found == layer {
        return Ok(());
    }
    Err(ImageError::Digest { what: "a layer", expected: layer, found })
}

/// Why a member was not placed.
pub(crate) enum Trouble {
    Refused(Refusal),
    System(io::Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(errno: rustix::io::Errno) -> Self {
        match errno {
            rustix::io::Errno::LOOP => Refusal("a symbolic link is on the way to it").into(),
            rustix::io::Errno::NOTDIR => Refusal("a file is on the way to it").into(),
            rustix::io::Errno::XDEV => Refusal("its name leads out of the layer").into(),
            other => Self::System(other.into()),
        }
    }
}

impl Trouble {
    fn at(self, layer: Digest, path: &[u8]) -> ImageError {
        let entry = escape_bytes(path.get(..200).unwrap_or(path));
        match self {
            Self::Refused(Refusal(why)) => ImageError::Hostile { layer, entry, why },
            Self::System(error) if error.kind() == io::ErrorKind::InvalidData => {
                ImageError::Malformed { what: "layer", why: error.to_string() }
            }
            Self::System(source) => {
                ImageError::System { action: format!("unpack `{entry}`"), source }
            }
        }
    }
}

fn broken(layer: Digest, error: &io::Error) -> ImageError {
    let why = if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("layer {layer} ends too early")
    } else {
        format!("layer {layer}: {error}")
    };
    ImageError::Malformed { what: "layer", why }
}

fn place(tree: &mut Tree<'_>, member: &Member, content: &mut impl Read) -> Result<(), Trouble> {
    match Name::of(&member.path, member.kind)? {
        Name::Root => tree.set_root(member.mode),
        Name::Removed { parent, name } => tree.remove_below(&parent, &name),
        Name::Opaque { parent } => tree.hide_below(&parent),
        Name::Bookkeeping => Ok(()),
        Name::Plain { parent, name } => match member.kind {
            Kind::Directory => tree.dir(&parent, &name, member.mode),
            Kind::File => tree.file(&parent, &name, member, content),
            Kind::Symlink => tree.symlink(&parent, &name, &member.link),
            Kind::HardLink => tree.hard_link(&parent, &name, &member.link),
            Kind::Fifo => tree.fifo(&parent, &name, member.mode),
            // The sandbox has a `/dev` of its own, so what an image has there is never seen.
            Kind::Device if parent.first().is_some_and(|it| it == b"dev") => Ok(()),
            Kind::Device => Err(Refusal("it is a device").into()),
            Kind::Unknown => Err(Refusal("it is of a kind that images do not have").into()),
        },
    }
}
