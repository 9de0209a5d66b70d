//! What the name of an entry means.

use super::Kind;

/// Marks a name that is removed from the layers below.
const REMOVED: &[u8] = b".wh.";
/// Marks what older builders kept for themselves.
const KEPT: &[u8] = b".wh..wh.";
/// Marks a directory of which nothing below is seen.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The longest name of one file.
const LONGEST: usize = 255;
/// Deeper trees than this can be made and then not be removed by path.
const DEEPEST: usize = 256;

/// Why an entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str);

/// A path, taken apart: the directories on the way, from the root of the layer.
pub(crate) type Parts = Vec<Vec<u8>>;

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The root itself.
    Root,
    /// A file of that name.
    Plain { parent: Parts, name: Vec<u8> },
    /// A name that is gone from the layers below.
    Removed { parent: Parts, name: Vec<u8> },
    /// A directory that hides what the layers below have in it.
    Opaque { parent: Parts },
    /// A builder's own note.
    Bookkeeping,
}

impl Name {
    /// Understands `path` of an entry of that kind.
    pub(crate) fn of(path: &[u8], kind: Kind) -> Result<Self, Refusal> {
        let mut parent = parts(path)?;
        let Some(name) = parent.pop() else {
            let root = kind == Kind::Directory;
            return root.then_some(Self::Root).ok_or(Refusal("it would replace the root"));
        };
        if parent.first().or(Some(&name)).is_some_and(|it| it.starts_with(KEPT))
            && name != OPAQUE
        {
            return Ok(Self::Bookkeeping);
        }
        if parent.iter().any(|part| part.starts_with(REMOVED)) {
            return Err(Refusal("it lies below a name that marks a removal"));
        }
        let Some(removed) = name.strip_prefix(REMOVED) else {
            return Ok(Self::Plain { parent, name });
        };
        if kind == Kind::Directory {
            return Err(Refusal("a directory cannot mark a removal"));
        }
        match removed {
            _ if name == OPAQUE => Ok(Self::Opaque { parent }),
            _ if removed.starts_with(REMOVED) => Ok(Self::Bookkeeping),
            b"" | b"." | b".." => Err(Refusal("it marks the removal of no name")),
            _ => Ok(Self::Removed { parent, name: removed.to_vec() }),
        }
    }
}

/// The parts of `path` from the root of the layer. A leading slash means that root, as it does for
/// every other tool that unpacks layers.
pub(crate) fn parts(path: &[u8]) -> Result<Parts, Refusal> {
    let mut found = Parts::new();
    for part in path.split(|it| *it == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(Refusal("its name climbs out")),
            _ if LONGEST < part.len() => return Err(Refusal("its name is too long")),
            _ if part.contains(&0) => return Err(Refusal("its name contains a NUL byte")),
            _ => found.push(part.to_vec()),
        }
    }
    if DEEPEST < found.len() {
        return Err(Refusal("it lies too deep"));
    }
    Ok(found)
}
