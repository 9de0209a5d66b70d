//! The directories of this host that a private disk begins with, and where it is kept.

use std::path::Path;

use bulkhead_policy::Disk;
use bulkhead_spec::{Access, HostPath};

use super::share::{Share, share};
use crate::BackendError;

/// The directories of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundDisk {
    /// The topmost first.
    pub(crate) layers: Vec<Share>,
    pub(crate) kept: Option<Share>,
}

impl FoundDisk {
    /// Looks at the directories of `disk`.
    pub(crate) fn survey(disk: &Disk) -> Result<Self, BackendError> {
        let found = |dir: &HostPath, access| share(dir.as_path(), Path::new("/"), access);
        let layers = disk.layers.iter().map(|it| found(it, Access::ReadOnly));
        let kept = disk.kept.as_ref().map(|it| found(&it.dir, Access::ReadWrite));
        Ok(Self { layers: layers.collect::<Result<_, _>>()?, kept: kept.transpose()? })
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.layers.is_empty() && self.kept.is_none()
    }
}
