//! Who can reach the private disk of a container.

use std::io;

use bulkhead_policy::{Disk, Plan};

use crate::{
    BackendError, Finding,
    container::{
        Container, Facts, Identity, Kernel,
        create::caller,
        probe::Machine,
        who::{self, Caller, Way},
    },
};

/// By which way a disk is reached from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It is what we have mounted for the container.
    Stage,
    /// It is a directory of ours that the daemon binds.
    Kept,
    /// The namespaces of the container are ours to enter, and it is there.
    Inside,
}

/// Why it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::container) enum Beyond {
    /// Nobody but the daemon can go there.
    Unreached,
    /// A virtual machine has a part of it in its memory.
    Machine,
    /// What an overlay wrote down can be read by root alone.
    Notes,
}

impl Beyond {
    /// That what was to be done cannot be done.
    pub(in crate::container) fn refusal(self, action: &str) -> BackendError {
        let (why, hint) = match self {
            Self::Unreached => (
                "only the daemon reaches it",
                "a room that was made with --persist, by root, or with --backend native can be \
                 copied",
            ),
            Self::Machine => (
                "its virtual machine has a part of it in memory",
                "use another --runtime, or --backend native",
            ),
            Self::Notes => (
                "this kernel does not let it be read what was changed of a private mount",
                "that needs Linux 6.6, or --persist",
            ),
        };
        BackendError::Build {
            action: action.to_owned(),
            source: io::Error::other(why),
            hint: Some(hint.to_owned()),
        }
    }
}

impl Container {
    /// What a disk that is kept beyond its container promises, where there can be one.
    pub(in crate::container) fn kept(&self) -> Option<Finding> {
        self.reach_of(Lasting::Kept).ok().map(|_| Finding::kept())
    }

    /// How `disk` is reached.
    pub(super) fn reach(&self, disk: &Disk) -> Result<Reach, Beyond> {
        self.reach_of(if disk.kept.is_some() { Lasting::Kept } else { Lasting::Container })
    }

    /// Refuses a disk that cannot be had here.
    pub(in crate::container) fn check_disk(&self, plan: &Plan) -> Result<(), BackendError> {
        let disk = plan.disk();
        if 1 < disk.layers.len() {
            let what = "a sandbox on more than one layer";
            return Err(BackendError::Unsupported { backend: self.daemon.name(), what });
        }
        match self.reach(disk) {
            Err(beyond) if !disk.is_plain() => {
                Err(beyond.refusal("fill the disk of the container"))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn reach_of(&self, lasting: Lasting) -> Result<Reach, Beyond> {
        decide(caller(), &self.daemon.facts, self.kernel, lasting)
    }
}

/// How `caller` reaches the disk of a container with such a kernel, at the daemon of `facts`.
fn decide(
    caller: Caller,
    facts: &Facts,
    kernel: Kernel,
    lasting: Lasting,
) -> Result<Reach, Beyond> {
    let way = who::decide(caller, facts).map_err(|_| Beyond::Unreached)?;
    match (kernel, way, caller, lasting) {
        (Kernel::Own, _, _, _) => Err(Beyond::Machine),
        (Kernel::Hosts | Kernel::UserSpace, Way::Translated(_), _, _) => Ok(Reach::Stage),
        (_, Way::As(_), _, _) if facts.machine == Machine::Other => Err(Beyond::Unreached),
        (_, Way::As(_), Caller::User { .. }, Lasting::Kept) => Ok(Reach::Kept),
        (Kernel::Hosts, Way::As(_), Caller::User { .. }, Lasting::Container)
            if facts.identity == Identity::Rootless =>
        {
            Ok(Reach::Inside)
        }
        (
            Kernel::Hosts | Kernel::UserSpace,
            Way::As(_),
            Caller::User { .. } | Caller::Root,
            Lasting::Kept | Lasting::Container,
        ) => Err(Beyond::Unreached),
    }
}

/// How long a disk is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasting {
    /// As long as its container.
    Container,
    /// Longer.
    Kept,
}

#[cfg(test)]
mod tests {
    use super::{Beyond, Lasting, Reach, decide};
    use crate::container::{
        Facts, Identity, Kernel,
        probe::{Machine, tests::facts},
        who::Caller,
    };

    #[test]
    fn who_reaches_which_disk() {
        let at = |identity, machine| Facts { identity, machine, ..facts("{}") };
        let (rootful, rootless) = (Identity::Rootful, Identity::Rootless);
        let (hosts, gvisor, kata) = (Kernel::Hosts, Kernel::UserSpace, Kernel::Own);
        let (here, there) = (Machine::This, Machine::Other);
        let ann = Caller::User { uid: 1001, gid: 100 };
        let root = Caller::Root;
        let (beyond, stage) = (Err(Beyond::Unreached), Ok(Reach::Stage));
        for (caller, identity, machine, kernel, of_container, of_kept) in [
            (root, &rootful, here, hosts, stage, stage),
            (root, &rootful, here, gvisor, stage, stage),
            (root, &rootful, here, kata, Err(Beyond::Machine), Err(Beyond::Machine)),
            (root, &rootful, there, hosts, beyond, beyond),
            (root, &rootless, here, hosts, beyond, beyond),
            (ann, &rootful, here, hosts, beyond, Ok(Reach::Kept)),
            (ann, &rootful, here, kata, Err(Beyond::Machine), Err(Beyond::Machine)),
            (ann, &rootful, there, hosts, beyond, beyond),
            (ann, &rootless, here, hosts, Ok(Reach::Inside), Ok(Reach::Kept)),
            (ann, &rootless, here, gvisor, beyond, Ok(Reach::Kept)),
        ] {
            let facts = at(identity.clone(), machine);
            let decided = |lasting| decide(caller, &facts, kernel, lasting);
            let both = (decided(Lasting::Container), decided(Lasting::Kept));
            assert_eq!(both, (of_container, of_kept), "{caller:?} {facts:?} {kernel:?}");
        }
    }
}
