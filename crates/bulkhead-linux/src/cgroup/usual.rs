//! The hierarchies where nearly every host has them, found without the list of all mounts: the
//! kernel writes that list anew for each reader, which takes it as long as a handful of mounts.

use std::path::{Path, PathBuf};

use rustix::fs::{stat, statfs};

use super::parse::{Controller, Hierarchy, Mount};
use super::place::{CGROUP_MAGIC, CGROUP2_MAGIC};

const TOP: &str = "/sys/fs/cgroup";

/// The number of the first cgroup namespace, the same on every host. In another one the paths of
/// `/proc/self/cgroup` begin elsewhere than those of mounts that were made outside.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFB;

/// The inode of the root of every hierarchy: a mount that shows another cgroup shows a part.
const ROOT: u64 = 1;

/// The mounts of all v1 hierarchies with controllers of ours, `None` if one of them is not where it
/// usually is; `own` is the text of `/proc/self/cgroup`, of whoever is in the first namespace.
pub(super) fn legacy(own: &str) -> Option<Vec<Mount>> {
    let mut found = Vec::new();
    for (_, controllers) in own.lines().filter_map(named).filter(|it| !is_unified(*it)) {
        let known = Controller::listed(controllers, ',');
        if known.is_empty() {
            continue;
        }
        let point = Path::new(TOP).join(controllers);
        let point = Some(point).filter(|it| is_root(it, CGROUP_MAGIC))?;
        found.push(Mount { hierarchy: Hierarchy::V1(known), root: "/".to_owned(), point });
    }
    Some(found)
}

/// Where the unified hierarchy is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unified {
    /// Where it usually is.
    At(Mount),
    /// We are in none.
    Nowhere,
    /// Somewhere else, as everything may be for somebody in another namespace.
    Elsewhere,
}

/// Looks for the unified hierarchy; `own` is the text of `/proc/self/cgroup`.
pub(super) fn unified(own: &str) -> Unified {
    if stat("/proc/self/ns/cgroup").map_or(true, |it| it.st_ino != FIRST_NAMESPACE) {
        return Unified::Elsewhere;
    }
    if !own.lines().filter_map(named).any(is_unified) {
        return Unified::Nowhere;
    }
    let places = [PathBuf::from(TOP), Path::new(TOP).join("unified")];
    match places.into_iter().find(|it| is_root(it, CGROUP2_MAGIC)) {
        Some(point) => {
            Unified::At(Mount { hierarchy: Hierarchy::V2, root: "/".to_owned(), point })
        }
        None => Unified::Elsewhere,
    }
}

/// The number of a hierarchy and the names of its controllers, from a line of `/proc/self/cgroup`.
fn named(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(':')?;
    Some((number, rest.split_once(':')?.0))
}

fn is_unified((number, controllers): (&str, &str)) -> bool {
    number == "0" && controllers.is_empty()
}

fn is_root(path: &Path, magic: rustix::fs::FsWord) -> bool {
    statfs(path).is_ok_and(|it| it.f_type == magic)
        && stat(path).is_ok_and(|it| it.st_ino == ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::parse;

    fn mounts(own: &str) -> Option<Vec<Mount>> {
        let unified = match unified(own) {
            Unified::At(mount) => Some(mount),
            Unified::Nowhere => None,
            Unified::Elsewhere => return None,
        };
        Some(unified.into_iter().chain(legacy(own)?).collect())
    }

    #[test]
    fn what_is_found_quickly_is_what_the_list_of_mounts_says() {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut listed = parse::mounts(&list);
        listed.retain(|it| parse::own(&own, &it.hierarchy).is_some());
        listed.sort_by(|a, b| a.point.cmp(&b.point));
        if let Some(mut quick) = mounts(&own) {
            quick.sort_by(|a, b| a.point.cmp(&b.point));
            assert_eq!(quick, listed);
        } else {
            let usual = |it: &Mount| it.root == "/" && it.point.starts_with(TOP);
            let first = stat("/proc/self/ns/cgroup").unwrap().st_ino == FIRST_NAMESPACE;
            assert!(!first || listed.is_empty() || !listed.iter().all(usual), "{listed:?}");
        }
    }

    #[test]
    fn what_is_not_where_it_usually_is_is_left_to_the_list() {
        assert_eq!(mounts("7:memory,never:/\n"), None);
        assert_eq!(
            mounts("7:name=other:/\n").map(|it| it.len()),
            mounts("").map(|it| it.len())
        );
    }
}
