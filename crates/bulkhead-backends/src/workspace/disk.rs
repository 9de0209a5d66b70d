//! The directories of this host that a private disk begins with, and where it is kept.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use bulkhead_policy::Disk;
use bulkhead_spec::{Access, HostPath};

use super::share::{Share, share};
use crate::BackendError;

/// The directories of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundDisk {
    /// The topmost first.
    pub(crate) layers: Vec<Share>,
    /// The directories in which a layer has something.
    filled: BTreeSet<OsString>,
    pub(crate) kept: Option<Share>,
}

impl FoundDisk {
    /// Looks at the directories of `disk`.
    pub(crate) fn survey(disk: &Disk) -> Result<Self, BackendError> {
        let found = |dir: &HostPath, access| share(dir.as_path(), Path::new("/"), access);
        let layers = disk.layers.iter().map(|it| found(it, Access::ReadOnly));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let kept =
            disk.kept.as_ref().map(|it| found(&it.dir, Access::ReadWrite)).transpose()?;
        let mut filled = BTreeSet::new();
        for layer in &layers {
            let failed = |source| BackendError::System { action: "look at a layer", source };
            filled.extend(filled_in(&layer.from).map_err(failed)?);
        }
        Ok(Self { layers, filled, kept })
    }

    /// Whether the part `name` begins with what a layer has of it. One that nobody has written to
    /// begins as that of any sandbox; where changes are kept, they may be changes to a layer.
    pub(crate) fn is_begun(&self, name: &str) -> bool {
        let filled = self.kept.is_some() || self.filled.contains(OsStr::new(name));
        !self.layers.is_empty() && filled
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.layers.is_empty() && self.kept.is_none()
    }
}

/// The directories of `layer` that are not empty, as far as can be seen.
fn filled_in(layer: &Path) -> io::Result<Vec<OsString>> {
    let mut filled = Vec::new();
    for entry in std::fs::read_dir(layer)? {
        let entry = entry?;
        let empty = std::fs::read_dir(entry.path()).is_ok_and(|mut it| it.next().is_none());
        if !empty {
            filled.push(entry.file_name());
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bulkhead_policy::Disk;
    use bulkhead_spec::HostPath;

    use super::FoundDisk;

    #[test]
    fn a_part_that_no_layer_has_anything_of_is_not_begun() {
        let scratch = tempfile::tempdir().unwrap();
        let layer = |name: &str, filled: &str| {
            let layer = scratch.path().join(name);
            for part in ["home", "tmp", "vartmp"] {
                fs::create_dir_all(layer.join(part)).unwrap();
            }
            fs::write(layer.join(filled).join(".file"), "").unwrap();
            HostPath::try_from(layer).unwrap()
        };
        let layers = vec![layer("upper", "tmp"), layer("lower", "home")];
        let found = FoundDisk::survey(&Disk { layers, kept: None }).unwrap();
        assert_eq!(["home", "tmp", "vartmp"].map(|it| found.is_begun(it)), [true, true, false]);
        assert!(!FoundDisk::default().is_begun("home"));
    }
}
