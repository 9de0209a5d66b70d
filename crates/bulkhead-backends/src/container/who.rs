//! Who the programs of a container are on the host.
//!
//! Files that they make in the workspace must belong to whoever owns it, and no program may have
//! the host's root identity. Which way leads there depends on who asks and on what the daemon does
//! with users; the table is [`decide`].

use std::io;

use super::{
    Facts, Identity, Product,
    lower::{User, Users},
    probe::Machine,
};
use crate::BackendError;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The root of this host, who can translate owners and mount.
    Root,
    /// Somebody else.
    User {
        /// Their user.
        uid: u32,
        /// Their group.
        gid: u32,
    },
}

/// How a container gets its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As this one; the files of the host are theirs.
    As(User),
    /// As one that owns nothing, to whom the owners of shared files are translated.
    Translated(Users),
}

/// A user of a machine that translates owners by itself, and of nobody.
const NOBODY_IN_PARTICULAR: u32 = 10_000;

/// The way for `caller` at a daemon that `facts` describe.
pub(super) fn decide(caller: Caller, facts: &Facts) -> Result<Way, BackendError> {
    let namespace = match facts.identity {
        Identity::Rootful | Identity::Rootless => Users::Usual,
        // Translated users own none of the caller's files.
        Identity::Remapped { .. } => Users::Hosts,
    };
    match (&facts.identity, facts.machine, caller) {
        (Identity::Rootless, Machine::This, caller) => Ok(Way::As(rootless(caller, facts))),
        (Identity::Rootful | Identity::Remapped { .. }, Machine::This, Caller::Root) => {
            Ok(Way::Translated(namespace))
        }
        (_, Machine::This | Machine::Other, Caller::User { uid: 0, .. }) => {
            Err(BackendError::Build {
                action: "find a user for the sandbox".to_owned(),
                source: io::Error::other(
                    "we are root in a user namespace, whom the daemon would take for its own root",
                ),
                hint: Some("run bulkhead outside of that namespace".to_owned()),
            })
        }
        (_, Machine::This | Machine::Other, Caller::User { uid, gid }) => {
            Ok(Way::As(User { uid, gid, namespace }))
        }
        (_, Machine::Other, Caller::Root) => {
            let id = NOBODY_IN_PARTICULAR;
            Ok(Way::As(User { uid: id, gid: id, namespace: Users::Usual }))
        }
    }
}

/// The user at a daemon without rights. There the root inside is its owner outside, and the other
/// users are nobody's. So that nobody is root inside, Podman keeps the owner's number, and at
/// Docker's the guest makes a namespace of its own.
fn rootless(caller: Caller, facts: &Facts) -> User {
    match (caller, facts.product) {
        (Caller::User { uid, gid }, Product::Podman) => {
            User { uid, gid, namespace: Users::Kept }
        }
        (Caller::User { .. } | Caller::Root, Product::Docker) => {
            User { uid: 0, gid: 0, namespace: Users::Apart }
        }
        (Caller::Root, Product::Podman) => User { uid: 0, gid: 0, namespace: Users::Usual },
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Way, decide};
    use crate::container::{
        Facts, Identity, Product,
        lower::{User, Users},
        probe::{Machine, tests::facts},
    };

    fn at(identity: Identity, machine: Machine) -> Facts {
        Facts { identity, machine, ..facts("{}") }
    }

    #[test]
    fn files_belong_to_whoever_owns_the_workspace() {
        let ann = Caller::User { uid: 1001, gid: 100 };
        let user = |uid, gid, namespace| Way::As(User { uid, gid, namespace });
        let remapped = || Identity::Remapped { root: Some((100_000, 100_000)) };
        for (identity, machine, caller, way) in [
            (Identity::Rootful, Machine::This, ann, user(1001, 100, Users::Usual)),
            (remapped(), Machine::This, ann, user(1001, 100, Users::Hosts)),
            (Identity::Rootless, Machine::This, ann, user(0, 0, Users::Apart)),
            (Identity::Rootful, Machine::Other, ann, user(1001, 100, Users::Usual)),
            (Identity::Rootful, Machine::This, Caller::Root, Way::Translated(Users::Usual)),
            (remapped(), Machine::This, Caller::Root, Way::Translated(Users::Hosts)),
            (
                Identity::Rootful,
                Machine::Other,
                Caller::Root,
                user(10_000, 10_000, Users::Usual),
            ),
        ] {
            assert_eq!(decide(caller, &at(identity, machine)).unwrap(), way);
        }
    }

    #[test]
    fn nobody_is_root_in_a_rootless_podman() {
        let ann = Caller::User { uid: 1001, gid: 100 };
        let facts = at(Identity::Rootless, Machine::This);
        let facts = Facts { product: Product::Podman, ..facts };
        let kept = User { uid: 1001, gid: 100, namespace: Users::Kept };
        assert_eq!(decide(ann, &facts).unwrap(), Way::As(kept));
    }

    #[test]
    fn the_root_of_a_namespace_is_not_taken_for_the_hosts() {
        let caller = Caller::User { uid: 0, gid: 0 };
        assert!(decide(caller, &at(Identity::Rootful, Machine::This)).is_err());
    }
}
