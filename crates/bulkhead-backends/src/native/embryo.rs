//! A sandbox that is begun before its plan is known.
//!
//! Half of a start is the kernel's work for namespaces and mounts that are the same for nearly every
//! plan, the other half is ours: to find out what the plan is. So the first is begun ahead, and both
//! go on side by side.

use std::os::fd::OwnedFd;

use bulkhead_linux::{
    birth::By,
    cgroup::{Cgroup, Feature},
    midwife::Midwife,
};

use super::{
    Native,
    birth::{Birth, Parts, unmade},
    create::built,
    program::Program,
    shape::Shape,
};
use crate::{
    BackendError,
    guest::pair,
    identity::{self, Owner},
};

/// What of a sandbox can be there without a plan. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Embryo {
    pub(super) id: String,
    pub(super) shape: Shape,
    // Dropped in this order: first the child, then what held it.
    pub(super) birth: Birth,
    /// Our end of the stream to the guest.
    pub(super) control: OwnedFd,
    /// Without limits; `None` where no cgroup is needed for the birth.
    pub(super) cgroup: Option<Cgroup>,
    pub(super) owner: Owner,
}

impl Embryo {
    pub(super) fn conceive(
        native: &Native,
        id: &str,
        shape: Shape,
        by: By,
    ) -> Result<Self, BackendError> {
        // A tree that a process must be born in counts its time, too.
        let needed = native.cgroups.holds(Feature::CpuTime).is_some();
        let cgroup = needed.then(|| native.cgroups.begin(id)).transpose();
        let cgroup =
            cgroup.map_err(|error| built("make a cgroup")(std::io::Error::other(error)))?;
        let (control, theirs) = pair().map_err(built("open the stream to the guest"))?;
        let guest = Program::of(native.guest(), &native.state, &identity::expected())
            .map_err(built("make a file in memory"))?;
        let owner =
            Owner::take(&native.runtime).map_err(built("take a user id for the sandbox"))?;
        let parts = Parts { by, guest, control: theirs, identity: owner.identity };
        let birth = Birth::begin(native, shape, cgroup.as_ref(), parts)?;
        Ok(Self { id: id.to_owned(), shape, birth, control, cgroup, owner })
    }
}

/// A midwife for a sandbox of `shape`.
pub(super) fn called(shape: Shape) -> Result<By, BackendError> {
    let midwife = Midwife::call(shape.network);
    midwife.map(By::Midwife).map_err(|it| unmade("make new namespaces", it))
}
