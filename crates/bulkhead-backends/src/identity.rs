//! Who the sandbox is, inside and outside.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, path::Path, sync::OnceLock};

use bulkhead_linux::identity::{Claim, Opener, Translation};
use rustix::process::{getgid, getpid, getuid};

/// The user and group that programs see themselves as.
pub(crate) const INSIDE: u32 = 1000;

/// Who the sandbox is on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A user of its own, away from everybody: we are root.
    Mapped {
        /// Its user and group.
        outside: u32,
    },
    /// The caller.
    Own {
        /// The caller's user.
        uid: u32,
        /// The caller's group.
        gid: u32,
    },
}

/// Whether we are the root of the host, and not of a user namespace that somebody put us into: only
/// that one may give files and processes to other users.
pub(crate) fn is_host_root() -> bool {
    // Asked by many, and the same for the whole life of a process.
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| {
        getuid().is_root()
            && std::fs::read("/proc/self/uid_map").is_ok_and(|map| maps_everybody(&map))
    })
}

fn maps_everybody(map: &[u8]) -> bool {
    let mut words = map.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
    let first = [words.next(), words.next(), words.next()];
    first == [Some(&b"0"[..]), Some(b"0"), Some(b"4294967295")]
}

/// Who a sandbox is that has no user of its own.
pub(crate) fn own() -> Identity {
    Identity::Own { uid: getuid().as_raw(), gid: getgid().as_raw() }
}

/// Who sandboxes are going to be, but for the number of a user of their own.
pub(crate) fn expected() -> Identity {
    if is_host_root() { Identity::Mapped { outside: 0 } } else { own() }
}

/// An identity for one sandbox, and what proves that it is its own.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) identity: Identity,
    _claim: Option<Claim>,
}

impl Owner {
    /// Takes an identity that no other sandbox has. Never the host's root.
    pub(crate) fn take(runtime: &Path) -> io::Result<Self> {
        if !is_host_root() {
            return Ok(Self { identity: own(), _claim: None });
        }
        let seed = getpid().as_raw_nonzero().get().unsigned_abs();
        let file = runtime.join("users");
        let claim = match Claim::take(&file, seed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(runtime)?;
                Claim::take(&file, seed)?
            }
            claim => claim?,
        };
        Ok(Self { identity: Identity::Mapped { outside: claim.id }, _claim: Some(claim) })
    }
}

/// Namespaces that translate owners of the host's files to the sandbox's user; one for each owner.
#[derive(Debug, Default)]
pub(crate) struct Translations {
    opener: Opener,
    made: BTreeMap<(u32, u32), Translation>,
}

impl Translations {
    /// None yet, for files that `opener` will open.
    pub(crate) fn opened_by(opener: Opener) -> Self {
        Self { opener, made: BTreeMap::new() }
    }

    /// The one for files of `owner`.
    pub(crate) fn of(&mut self, owner: (u32, u32), outside: u32) -> io::Result<&OwnedFd> {
        match self.made.entry(owner) {
            std::collections::btree_map::Entry::Occupied(found) => {
                Ok(found.into_mut().namespace())
            }
            std::collections::btree_map::Entry::Vacant(free) => {
                let made = Translation::make(owner, outside, self.opener)?;
                Ok(free.insert(made).namespace())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::maps_everybody;

    #[test]
    fn only_the_whole_map_is_the_hosts() {
        assert!(maps_everybody(b"         0          0 4294967295\n"));
        assert!(!maps_everybody(b"         0       1000          1\n"));
        assert!(!maps_everybody(b"         0     100000      65536\n"));
        assert!(!maps_everybody(b"         0          0          1\n"));
        assert!(!maps_everybody(b""));
    }
}
