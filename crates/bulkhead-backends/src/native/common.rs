//! What many sandboxes of one process, or of copies of it, have in common: made and looked at once.

use std::{os::fd::OwnedFd, path::Path, sync::Arc};

use bulkhead_linux::{birth::By, together::AllReady};
use bulkhead_policy::{Disk, Plan};

use super::{
    Native,
    create::built,
    embryo::called,
    frame::Frame,
    lower,
    program::Program,
    shape::{Parts, Shape},
    survey::House,
};
use crate::{BackendError, doors::has as has_doors, identity, workspace::disk::FoundDisk};

/// What is the same for all of them.
#[derive(Debug)]
pub(super) struct Common {
    /// If none is laid for them.
    guest: Option<Arc<OwnedFd>>,
    house: Arc<House>,
    /// What could be found of their disks.
    disk: Option<(Disk, FoundDisk)>,
    /// When all of them are created.
    created: Arc<AllReady>,
}

impl Common {
    /// Makes the guest, and looks at the host and at what disks begin with.
    pub(super) fn find(
        state: &Path,
        disk: &Disk,
        created: Arc<AllReady>,
    ) -> Result<Self, BackendError> {
        Ok(Self {
            guest: Program::for_many(state, &identity::expected())
                .map_err(built("seal the guest"))?,
            house: {
                let house = House::survey(Parts::Host);
                // Where it cannot be laid each makes its own.
                let (_, made) = lower::second_framed(Shape::USUAL, &house);
                Frame::of(state, made).lay().ok();
                Arc::new(house)
            },
            // What is wrong with it is told by the sandbox that has it.
            disk: FoundDisk::survey(disk).ok().map(|it| (disk.clone(), it)),
            created,
        })
    }
}

impl Native {
    /// The guest of every sandbox, if there will be many.
    pub(super) fn guest(&self) -> Option<&Arc<OwnedFd>> {
        self.common.get().and_then(|it| it.guest.as_ref())
    }

    /// Who bears a sandbox of `plan`. One of many is built when all are created: whoever asked for them
    /// is answered by those who create them. But one with doors is not created before they are open.
    pub(super) fn bearer(&self, plan: &Plan) -> Result<By, BackendError> {
        let shape = Shape::of(plan);
        let Some(common) = self.common.get() else { return called(shape) };
        let when = (!has_doors(plan)).then(|| common.created.number());
        Ok(By::Nobody { network: shape.network, when })
    }

    /// What a sandbox sees of this host whose root is made of `parts`.
    pub(super) fn house(&self, parts: Parts) -> Arc<House> {
        let common = self.common.get().filter(|_| parts == Parts::Host);
        common.map_or_else(|| Arc::new(House::survey(parts)), |it| Arc::clone(&it.house))
    }

    /// What was found of `disk`.
    pub(super) fn found(&self, disk: &Disk) -> Result<FoundDisk, BackendError> {
        let common = self.common.get().and_then(|it| it.disk.as_ref());
        let found = common.filter(|(of, _)| of == disk).map(|(_, found)| found.clone());
        found.map_or_else(|| FoundDisk::survey(disk), Ok)
    }
}
