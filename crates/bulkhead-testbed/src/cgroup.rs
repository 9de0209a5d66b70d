//! What a daemon leaves in the machine's cgroups.

use std::{fs, path::Path};

/// Removes the cgroup `name` that a daemon put its containers in, in every hierarchy.
///
/// Where there is none, or a container is still on its way out, nothing is lost.
pub(crate) fn forget(name: &str) {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(top).into_iter().flatten().flatten();
    for cgroup in hierarchies.map(|it| it.path().join(name)).chain([top.join(name)]) {
        for inside in fs::read_dir(&cgroup).into_iter().flatten().flatten() {
            fs::remove_dir(inside.path()).unwrap_or_default();
        }
        fs::remove_dir(cgroup).unwrap_or_default();
    }
}
