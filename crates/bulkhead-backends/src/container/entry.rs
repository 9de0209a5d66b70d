//! How what programs in a container say reaches the gateway.
//!
//! A root of this host enters the network of a container and makes there what a native sandbox
//! makes for itself: every address is local, and the listening sockets are ours. Nobody else can,
//! and a container gets no capability for it either: then its guest listens on loopback and passes
//! on who comes, names stand for addresses of loopback, and every other address has no route.

use std::os::fd::AsFd as _;

use bulkhead_linux::doors::open_in;
use bulkhead_policy::Plan;
use bulkhead_spec::Caught;

use super::{Container, Facts, Identity, Kernel, probe::Machine, sandbox::First, who::Caller};
use crate::{
    BackendError, Doors,
    doors::{for_guest, has, sorted, wanted},
    guest::Link,
};

/// What leads to the gateway from containers of the daemon that `facts` describe, for `caller`.
pub(super) fn decide(caller: Caller, facts: &Facts, kernel: Kernel) -> Caught {
    match (caller, facts.machine, &facts.identity, kernel) {
        (
            Caller::Root,
            Machine::This,
            Identity::Rootful | Identity::Remapped { .. },
            Kernel::Hosts,
        ) => Caught::EveryAddress,
        // The network is that of a user namespace, of another machine, or of a kernel in between.
        (
            Caller::Root | Caller::User { .. },
            Machine::This | Machine::Other,
            Identity::Rootful | Identity::Remapped { .. } | Identity::Rootless,
            Kernel::Hosts | Kernel::UserSpace | Kernel::Own,
        ) => Caught::Names,
    }
}

impl Container {
    /// Refuses what a container cannot have here: a cable is laid by whoever enters its network.
    pub(super) fn check_network(&self, plan: &Plan) -> Result<(), BackendError> {
        match (plan.egress().network(), self.caught) {
            (Some(_), Caught::Names) => Err(BackendError::Unsupported {
                backend: self.daemon.name(),
                what: "a private network, unless root asks a rootful daemon on this machine for \
                       a container with the host's kernel",
            }),
            (Some(_), Caught::EveryAddress) | (None, _) => Ok(()),
        }
    }

    /// Opens the doors of `plan` in a container that has not run a program yet, if it is to have
    /// any.
    pub(super) async fn doors(
        &self,
        plan: &Plan,
        link: &Link,
        first: Option<&First>,
    ) -> Result<Option<Doors>, BackendError> {
        if !has(plan) {
            return Ok(None);
        }
        match self.caught {
            Caught::Names => Ok(Some(Doors::Channels(link.listen(for_guest(plan)).await?))),
            Caught::EveryAddress => {
                let failed = |source| BackendError::Build {
                    action: "open doors in the network of the container".to_owned(),
                    source,
                    hint: None,
                };
                let first = first.ok_or_else(|| {
                    failed(std::io::Error::other("its first process cannot be seen from here"))
                })?;
                let opened = open_in(first.process.as_fd(), &wanted(plan)).map_err(failed)?;
                Ok(sorted(plan, opened))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bulkhead_spec::Caught;

    use super::decide;
    use crate::container::{
        Facts, Identity, Kernel,
        probe::{Machine, tests::facts},
        who::Caller,
    };

    #[test]
    fn only_the_root_of_this_host_enters_a_network_and_only_one_of_its_own_kernel() {
        let at = |identity, machine| Facts { identity, machine, ..facts("{}") };
        let ann = Caller::User { uid: 1001, gid: 100 };
        let (hosts, this) = (Kernel::Hosts, Machine::This);
        for (caller, facts, kernel, caught) in [
            (Caller::Root, at(Identity::Rootful, this), hosts, Caught::EveryAddress),
            (Caller::Root, at(Identity::Rootful, this), Kernel::UserSpace, Caught::Names),
            (Caller::Root, at(Identity::Rootful, Machine::Other), hosts, Caught::Names),
            (Caller::Root, at(Identity::Rootless, this), hosts, Caught::Names),
            (ann, at(Identity::Rootful, this), hosts, Caught::Names),
        ] {
            assert_eq!(decide(caller, &facts, kernel), caught);
        }
    }
}
