//! Where something is copied from or to.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use bulkhead_engine::rooms::Client;

use super::super::of_client;
use crate::failure::Failure;

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `ROOM:PATH`.
    Room(Inside),
    /// A path of the host's.
    Host(PathBuf),
    /// `-`.
    Stream,
}

/// A path of a room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inside {
    /// What its user calls the room.
    pub(super) room: String,
    /// As the user wrote it.
    pub(super) path: Vec<u8>,
}

impl Place {
    /// What an argument means. A name with a colon is a path of the host's if it says so by
    /// beginning with `/` or `.`, as with Docker.
    pub(super) fn of(text: &OsStr) -> Self {
        if text == "-" {
            return Self::Stream;
        }
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|it| *it == b':');
        let split = colon.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)));
        match split {
            Some((room, path)) if !room.contains(&b'/') && !room.starts_with(b".") => {
                let room = String::from_utf8_lossy(room).into_owned();
                Self::Room(Inside { room, path: path.to_vec() })
            }
            Some(_) | None => Self::Host(PathBuf::from(text)),
        }
    }
}

impl Inside {
    /// The path from the root; what is relative begins where programs of the room start.
    pub(super) async fn whole(&self, client: &Client) -> Result<Vec<u8>, Failure> {
        if self.path.starts_with(b"/") {
            return Ok(self.path.clone());
        }
        let room = client.inspect().await.map_err(|error| of_client(&error))?;
        let dir = room.dir.map_or_else(|| "/".into(), |it| it.0);
        Ok(join(dir.as_bytes(), &self.path))
    }
}

/// `name` in `dir`.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    [dir, b"/", name].concat()
}

/// The last part of a path, by which a copy of it is called; `None` if it ends in `.`, `..` or is
/// the root: then what is in it is copied.
pub(super) fn name(path: &[u8]) -> Option<&[u8]> {
    if path.ends_with(b"/.") || path == b"." {
        return None;
    }
    let path = OsStr::from_bytes(path);
    std::path::Path::new(path).file_name().map(OsStr::as_bytes)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, path::PathBuf};

    use super::{Inside, Place, join, name};

    #[test]
    fn rooms_and_paths_are_told_apart() {
        let host = |path: &str| Place::Host(PathBuf::from(path));
        let room = |room: &str, path: &str| {
            Place::Room(Inside { room: room.to_owned(), path: path.into() })
        };
        let of = |text: &str| Place::of(OsStr::new(text));
        assert_eq!(of("shop:/a"), room("shop", "/a"));
        assert_eq!(of("shop:a:b"), room("shop", "a:b"));
        assert_eq!(of("./shop:a"), host("./shop:a"));
        assert_eq!(of("dir/shop:a"), host("dir/shop:a"));
        assert_eq!(of("a"), host("a"));
        assert_eq!(of("-"), Place::Stream);
    }

    #[test]
    fn a_copy_has_the_last_name_unless_only_what_is_in_it_is_meant() {
        assert_eq!(name(b"/a/b"), Some(&b"b"[..]));
        assert_eq!(name(b"/a/b/"), Some(&b"b"[..]));
        assert_eq!(
            (name(b"/a/."), name(b"."), name(b"/"), name(b"/a/..")),
            (None, None, None, None)
        );
        assert_eq!(join(b"/", b"a"), b"/a");
    }
}
