//! Finds out in which cgroups we may make others, by looking only.
//!
//! Runs at every start, so it reads as little of `/proc` as will do and asks for access rights; it
//! changes nothing and starts nothing.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, AtFlags, CWD, FsWord};

use super::dir::text_of;
use super::parse::{self, Controller, Hierarchy, Mount};
use super::{Cgroups, Delegation, Layout, Legacy, usual, v1, v2};

/// `f_type` of the two filesystems. Only a directory of these is a cgroup; in one of a tmpfs that
/// covers it, all our limits would be plain files.
pub(super) const CGROUP_MAGIC: FsWord = 0x0027_e0eb;
pub(super) const CGROUP2_MAGIC: FsWord = 0x6367_7270;

/// Looks at the hierarchies of this host; `name` is what our cgroups are called.
pub(super) fn probe(name: &str) -> Cgroups {
    let own = text_of(Path::new("/proc/self/cgroup")).unwrap_or_default();
    match usual::unified(&own) {
        usual::Unified::At(mount) => of(Some(&mount), &own, name),
        usual::Unified::Nowhere => of(None, &own, name),
        usual::Unified::Elsewhere => among(&listed(), &own, name),
    }
}

/// What v1 has that v2 has not, for whoever has found v2 where it usually is.
pub(super) fn legacy(cgroups: &Cgroups) -> Legacy {
    let Cgroups { own, unified, v2, name, .. } = cgroups;
    let usual = usual::legacy(own).map(|it| unified.iter().cloned().chain(it).collect());
    legacy_among(&usual.unwrap_or_else(listed), own, v2.as_ref(), name)
}

/// The list of all mounts of cgroups.
fn listed() -> Vec<Mount> {
    parse::mounts(&text_of(Path::new("/proc/self/mountinfo")).unwrap_or_default())
}

/// Chooses among these mounts; `own` is the text of `/proc/self/cgroup`.
pub(super) fn among(mounts: &[Mount], own: &str, name: &str) -> Cgroups {
    let unified = mounts.iter().find(|it| it.hierarchy == Hierarchy::V2);
    let mut cgroups = of(unified, own, name);
    let legacy = legacy_among(mounts, own, cgroups.v2.as_ref(), name);
    cgroups.legacy = OnceLock::from(legacy);
    cgroups
}

/// Those of v2; what v1 has is to be looked at.
fn of(unified: Option<&Mount>, own: &str, name: &str) -> Cgroups {
    let found = unified.map(|mount| look_at_v2(mount, own, name)).unwrap_or_default();
    let Unified { tree: v2, delegation, reach } = found;
    let (name, own, unified) = (name.to_owned(), own.to_owned(), unified.cloned());
    Cgroups { name, own, unified, v2, delegation, reach, legacy: OnceLock::new() }
}

fn legacy_among(mounts: &[Mount], own: &str, v2: Option<&v2::Tree>, name: &str) -> Legacy {
    let mut legacy: Vec<v1::Tree> = Vec::new();
    let mut freezer = None;
    for mount in mounts {
        let Hierarchy::V1(controllers) = &mount.hierarchy else { continue };
        let mut needed = controllers.clone();
        needed.retain(|it| is_needed(*it, v2, &legacy));
        if needed.is_empty() {
            continue;
        }
        let Some(place) = place(mount, own).filter(|it| may_write(it)) else { continue };
        let tree = v1::Tree::at(&place, name, &mount.point);
        if needed.contains(&Controller::Freezer) {
            freezer = Some(tree.clone().with(vec![Controller::Freezer]));
        }
        needed.retain(|it| *it != Controller::Freezer);
        if !needed.is_empty() {
            legacy.push(tree.with(needed));
        }
    }
    Legacy { layout: Layout::of(mounts), trees: legacy, freezer }
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
    !elsewhere && !unified
}

/// Our own cgroup, as seen through the mount, or its root if that is not seen; nothing if
/// something else is mounted over it.
fn place(mount: &Mount, own: &str) -> Option<PathBuf> {
    let magic = match mount.hierarchy {
        Hierarchy::V1(_) => CGROUP_MAGIC,
        Hierarchy::V2 => CGROUP2_MAGIC,
    };
    let is_cgroup =
        |path: &PathBuf| rustix::fs::statfs(path).is_ok_and(|it| it.f_type == magic);
    let own = mount.place_of(parse::own(own, &mount.hierarchy).unwrap_or("/"));
    Some(own).filter(is_cgroup).or_else(|| Some(mount.point.clone()).filter(is_cgroup))
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
    let Some(own) = place(mount, own) else { return Unified::default() };
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
    let text = text_of(&cgroup.join("cgroup.controllers")).unwrap_or_default();
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
    cgroup != own && text_of(&cgroup.join("cgroup.procs")).is_ok_and(|it| it.is_empty())
}

/// Whether no process but this one is in the cgroup itself.
fn is_alone_in(cgroup: &Path) -> bool {
    let text = text_of(&cgroup.join("cgroup.procs")).unwrap_or_default();
    text.trim() == std::process::id().to_string()
}

/// Whether the kernel would let us write there; it says no as well on a read-only mount.
fn may_write(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn exists(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXISTS).is_ok()
}
