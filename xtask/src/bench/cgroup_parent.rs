//! The cgroup under which peers make theirs, so that what they leave can be removed.

use std::fs;
use std::path::{Path, PathBuf};

const HIERARCHIES: &str = "/sys/fs/cgroup";

/// A name that only this run uses; `Drop` removes the empty cgroups below it and itself.
pub(crate) struct CgroupParent(String);

impl CgroupParent {
    pub(crate) fn new() -> Self {
        // Not a name that Bulkhead, which sweeps, could take for its own.
        Self(format!("bench-{}", std::process::id()))
    }

    /// As a path from the root of a hierarchy.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.0)
    }
}

impl Drop for CgroupParent {
    fn drop(&mut self) {
        let below = fs::read_dir(HIERARCHIES).into_iter().flatten().filter_map(Result::ok);
        let hierarchies = below.map(|it| it.path()).chain([PathBuf::from(HIERARCHIES)]);
        for hierarchy in hierarchies {
            remove(&hierarchy.join(&self.0));
        }
    }
}

/// Removes from the leaves up. What is still in use stays: the kernel refuses, and so do we.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove(&entry.path());
        }
    }
    drop(fs::remove_dir(cgroup));
}
