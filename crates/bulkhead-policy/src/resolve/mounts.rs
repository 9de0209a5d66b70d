//! What may be shared, and where it may be seen.

use std::path::Path;

use bulkhead_spec::{GuestPath, HostPath, ImageSource, Root, Spec};

use crate::{Denial, Policy, images};

/// Sharing one of these would hand over the host itself: the whole tree, its devices, its kernel
/// or its sockets. A read-only mount of a socket still answers.
const DANGEROUS: [&str; 6] = ["/", "/dev", "/proc", "/sys", "/run", "/var/run"];

/// The sandbox mounts its own things here.
const RESERVED: [&str; 4] = ["/", "/dev", "/proc", "/sys"];

pub(super) fn check(spec: &Spec, policy: &Policy) -> Result<(), Denial> {
    match &spec.root {
        Root::Host => {}
        Root::Directory(dir) => check_source(dir, policy)?,
        Root::Image(image) => check_image(&image.source, policy)?,
    }
    if let Some(workspace) = &spec.workspace {
        check_source(&workspace.dir, policy)?;
        let seen = GuestPath::try_from(workspace.dir.as_path().to_owned())
            .map_err(|_| Denial::Mount(workspace.dir.clone()))?;
        check_target(&seen)?;
    }
    for mount in &spec.mounts {
        check_source(&mount.from, policy)?;
        check_target(&mount.to)?;
    }
    spec.tmpfs.iter().chain(&spec.home).try_for_each(check_target)
}

fn check_source(from: &HostPath, policy: &Policy) -> Result<(), Denial> {
    let path = from.as_path();
    let below = |dir: &str| dir != "/" && path.starts_with(dir);
    if DANGEROUS.iter().any(|dir| path == Path::new(dir) || below(dir)) {
        return Err(Denial::Dangerous(from.clone()));
    }
    if policy.may_mount(from) { Ok(()) } else { Err(Denial::Mount(from.clone())) }
}

fn check_image(source: &ImageSource, policy: &Policy) -> Result<(), Denial> {
    if images::allow(policy.images.as_ref(), source) {
        return Ok(());
    }
    let allowed = policy.images.iter().flatten().map(ToString::to_string).collect();
    Err(Denial::Image { asked: source.to_string(), allowed })
}

fn check_target(to: &GuestPath) -> Result<(), Denial> {
    let path = to.as_path();
    let below = |dir: &str| dir != "/" && path.starts_with(dir);
    if RESERVED.iter().any(|dir| path == Path::new(dir) || below(dir)) {
        return Err(Denial::Reserved(to.clone()));
    }
    Ok(())
}
