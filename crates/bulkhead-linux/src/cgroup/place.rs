//! Finds out in which cgroups we may make others, by looking only.
//!
//! Runs at every start, so it reads two files of `/proc` and asks for access rights; it changes
//! nothing and starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FsWord};

use super::parse::{self, Controller, Hierarchy, Mount};
use super::{Cgroups, Delegation, Layout, v1, v2};

/// `f_type` of the two filesystems. Only a directory of these is a cgroup; in one of a tmpfs that
/// covers it, all our limits would be plain files.
const CGROUP_MAGIC: FsWord = 0x0027_e0eb;
const CGROUP2_MAGIC: FsWord = 0x6367_7270;

/// Looks at the hierarchies of this host; `name` is what our cgroups are called.
pub(super) fn probe(name: &str) -> Cgroups {
    // Lossy is fine: a path that cannot be read as text is then not found, and so not used.
    let read = |path| fs::read(path).unwrap_or_default();
    let (mountinfo, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    among(
        &parse::mounts(&String::from_utf8_lossy(&mountinfo)),
        &String::from_utf8_lossy(&own),
        name,
    )
}

/// Chooses among these mounts; `own` is the text of `/proc/self/cgroup`.
pub(super) fn among(mounts: &[Mount], own: &str, name: &str) -> Cgroups {
    let unified = mounts.iter().find(|it| it.hierarchy == Hierarchy::V2);
    let v2 = unified.map_or_else(Unified::default, |mount| look_at_v2(mount, own, name));
    let mut legacy = Vec::new();
    let mut freezer = None;
    for mount in mounts {
        let Hierarchy::V1(controllers) = &mount.hierarchy else { continue };
        let place = place(mount, own);
        if !is_cgroup(&place, CGROUP_MAGIC) || !may_write(&place) {
            continue;
        }
        if controllers.contains(&Controller::Freezer) && v2.tree.is_none() {
            freezer = Some(v1::Tree::at(&place, name, vec![Controller::Freezer]));
        }
        let useful: Vec<_> = controllers
            .iter()
            .copied()
            .filter(|it| is_needed(*it, v2.tree.as_ref(), &legacy))
            .collect();
        if !useful.is_empty() {
            legacy.push(v1::Tree::at(&place, name, useful));
        }
    }
    Cgroups {
        name: name.to_owned(),
        layout: Layout::of(mounts),
        v2: v2.tree,
        v1: legacy,
        freezer,
        delegation: v2.delegation,
        reach: v2.reach,
    }
}

/// Whether a v1 hierarchy gives something that we do not have yet.
fn is_needed(it: Controller, v2: Option<&v2::Tree>, v1: &[v1::Tree]) -> bool {
    let elsewhere = v1.iter().any(|tree| tree.controllers.contains(&it));
    let unified = v2.is_some_and(|tree| match it {
        Controller::Memory | Controller::Cpu | Controller::Pids => {
            tree.controllers.contains(&it)
        }
        // Every v2 cgroup counts CPU time and can be frozen.
        Controller::CpuAccounting | Controller::Freezer => true,
    });
    // A freezer has no place here at all: it is made at its first use.
    it != Controller::Freezer && !elsewhere && !unified
}

/// Our own cgroup, as seen through the mount; its root if that is not seen.
fn place(mount: &Mount, own: &str) -> PathBuf {
    let place = mount.place_of(parse::own(own, &mount.hierarchy).unwrap_or("/"));
    if place.is_dir() { place } else { mount.point.clone() }
}

#[derive(Default)]
struct Unified {
    tree: Option<v2::Tree>,
    delegation: Delegation,
    reach: Vec<Controller>,
}

/// Chooses the cgroup that hands its controllers down to the sandboxes.
///
/// A cgroup with processes of its own cannot do that, so it is the nearest one from ours upwards
/// that has none and has the most of the controllers; in the root both are possible.
fn look_at_v2(mount: &Mount, own: &str, name: &str) -> Unified {
    let own = place(mount, own);
    if !is_cgroup(&own, CGROUP2_MAGIC) {
        return Unified::default();
    }
    let mut best: Option<(&Path, Vec<Controller>)> = None;
    for cgroup in own.ancestors().take_while(|it| it.starts_with(&mount.point)) {
        // The right to write `cgroup.procs` here is what lets us start a process below: the
        // kernel asks for it in the common ancestor of where we are and where it shall be.
        if !may_write(cgroup) || !may_write(&cgroup.join("cgroup.procs")) {
            continue;
        }
        let controllers =
            if can_hand_down(cgroup, &own) { offered(cgroup) } else { Vec::new() };
        if best.as_ref().is_none_or(|(_, most)| controllers.len() > most.len()) {
            best = Some((cgroup, controllers));
        }
        if best.as_ref().is_some_and(|(_, most)| most.len() == WANTED.len()) {
            break;
        }
    }
    let held = best.as_ref().map_or(0, |(_, controllers)| controllers.len());
    let (delegation, reach) = further(mount, &own, held);
    let tree = best.map(|(base, controllers)| v2::Tree::at(base, name, controllers));
    Unified { tree, delegation, reach }
}

/// How more than `held` controllers could be had, and which they would be.
fn further(mount: &Mount, own: &Path, held: usize) -> (Delegation, Vec<Controller>) {
    if held == WANTED.len() {
        return (Delegation::Held, Vec::new());
    }
    let offer = offered(own);
    if offer.len() > held && may_write(own) && is_alone_in(own) {
        return (Delegation::StepAside, offer);
    }
    if let Some(offer) = user_manager_offer(mount).filter(|offer| offer.len() > held) {
        return (Delegation::AskSystemd, offer);
    }
    let delegation = if held > 0 { Delegation::Held } else { Delegation::None };
    (delegation, Vec::new())
}

/// What the service manager of our user can hand down, if one runs.
fn user_manager_offer(mount: &Mount) -> Option<Vec<Controller>> {
    let uid = rustix::process::geteuid();
    if uid.is_root() || !exists(Path::new("/run/systemd/system")) {
        return None;
    }
    let uid = uid.as_raw();
    let service = format!("user.slice/user-{uid}.slice/user@{uid}.service");
    let service = mount.point.join(service);
    may_write(&service).then(|| offered(&service))
}

/// The controllers that make up the limits of a sandbox.
const WANTED: [Controller; 3] = [Controller::Memory, Controller::Cpu, Controller::Pids];

fn offered(cgroup: &Path) -> Vec<Controller> {
    let text = fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
    let mut offered = Controller::listed(&text, ' ');
    offered.retain(|it| WANTED.contains(it));
    offered
}

/// Whether controllers can be enabled for the children of `cgroup`: it has no processes itself,
/// or it is the root, which alone has no `cgroup.type`.
fn can_hand_down(cgroup: &Path, own: &Path) -> bool {
    let control = cgroup.join("cgroup.subtree_control");
    if !may_write(&control) {
        return false;
    }
    if !exists(&cgroup.join("cgroup.type")) {
        return true;
    }
    cgroup != own && fs::read(cgroup.join("cgroup.procs")).is_ok_and(|it| it.is_empty())
}

/// Whether no process but this one is in the cgroup itself.
fn is_alone_in(cgroup: &Path) -> bool {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.trim() == std::process::id().to_string()
}

fn is_cgroup(path: &Path, magic: FsWord) -> bool {
    rustix::fs::statfs(path).is_ok_and(|it| it.f_type == magic)
}

/// Whether the kernel would let us write there; it says no as well on a read-only mount.
fn may_write(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn exists(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXISTS).is_ok()
}
