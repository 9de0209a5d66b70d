//! Paths, told apart by whose they are.

use std::{
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize, Serializer};

/// An absolute path on the host, without `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "PathBuf")]
pub struct HostPath(PathBuf);

/// An absolute path as a sandbox sees it, without `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "PathBuf")]
pub struct GuestPath(PathBuf);

/// A path that is not absolute, climbs, or cannot be passed to a system call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an absolute path without `..`", crate::escape_bytes(.0.as_os_str().as_bytes()))]
pub struct InvalidPath(PathBuf);

fn checked(path: PathBuf) -> Result<PathBuf, InvalidPath> {
    let climbs = path.components().any(|part| matches!(part, Component::ParentDir));
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() || climbs || bytes.contains(&0) || bytes.len() > 4095 {
        return Err(InvalidPath(path));
    }
    // Rebuilt from its parts, so that `/a//b/.` and `/a/b` are one path.
    Ok(path.components().collect())
}

macro_rules! path {
    ($name:ident) => {
        impl $name {
            /// The path itself.
            pub fn as_path(&self) -> &Path {
                &self.0
            }

            /// Whether it can be written down as text and read back.
            pub fn is_text(&self) -> bool {
                self.0.to_str().is_some()
            }

            /// Whether `other` is this path or lies below it.
            pub fn holds(&self, other: &Self) -> bool {
                other.0.starts_with(&self.0)
            }
        }

        impl TryFrom<PathBuf> for $name {
            type Error = InvalidPath;

            fn try_from(path: PathBuf) -> Result<Self, InvalidPath> {
                checked(path).map(Self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidPath;

            fn from_str(path: &str) -> Result<Self, InvalidPath> {
                checked(PathBuf::from(path)).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&crate::escape_bytes(self.0.as_os_str().as_bytes()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self.0.to_str() {
                    Some(text) => to.serialize_str(text),
                    // Legible, and no longer the same path: whoever reads it back must know.
                    None => to.collect_str(self),
                }
            }
        }
    };
}

path!(HostPath);
path!(GuestPath);
