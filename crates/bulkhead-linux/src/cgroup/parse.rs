//! Reads `/proc/self/mountinfo` and `/proc/self/cgroup` as text, without touching the system.
//!
//! Apart from the rest so that the layouts of hosts which we do not have can be tested as samples.

use std::path::{Path, PathBuf};

/// A controller that we make use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Memory,
    Cpu,
    CpuAccounting,
    Pids,
    Freezer,
}

impl Controller {
    /// The controller of that name, if it is one of ours.
    pub(super) fn named(name: &str) -> Option<Controller> {
        match name {
            "memory" => Some(Controller::Memory),
            "cpu" => Some(Controller::Cpu),
            "cpuacct" => Some(Controller::CpuAccounting),
            "pids" => Some(Controller::Pids),
            "freezer" => Some(Controller::Freezer),
            _ => None,
        }
    }

    /// Our controllers in a list such as that of `cgroup.controllers`, sorted.
    pub(super) fn listed(text: &str, separator: char) -> Vec<Controller> {
        let mut all: Vec<_> =
            text.trim().split(separator).filter_map(Controller::named).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How `cgroup.subtree_control` spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::CpuAccounting => "cpuacct",
            Controller::Pids => "pids",
            Controller::Freezer => "freezer",
        }
    }
}

/// Which kind of hierarchy a mount or a line of `/proc/self/cgroup` speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// One v1 hierarchy with these of our controllers.
    V1(Vec<Controller>),
    /// The unified one.
    V2,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) hierarchy: Hierarchy,
    /// The cgroup that is seen at the mount point.
    pub(super) root: String,
    pub(super) point: PathBuf,
}

/// The hierarchies that are mounted, in the order of the text, without the ones that have none
/// of our controllers.
pub(super) fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // Most lines are not about cgroups, and a host may have thousands of them.
    let (place, filesystem) = line.split_once(" - cgroup")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut filesystem = filesystem.split(' ');
    let hierarchy = match filesystem.next()? {
        "2" => Hierarchy::V2,
        "" => {
            let controllers = Controller::listed(filesystem.nth(1)?, ',');
            if controllers.is_empty() {
                return None;
            }
            Hierarchy::V1(controllers)
        }
        _ => return None,
    };
    Some(Mount { hierarchy, root: unescaped(root), point: PathBuf::from(unescaped(point)) })
}

/// Undoes the octal escapes of mountinfo (`\040` for a space).
fn unescaped(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let (Some(code), Some(tail)) = (code, after.get(3..)) {
            text.push(char::from(code));
            rest = tail;
        } else {
            text.push('\\');
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

/// The cgroup of the process in `hierarchy`, out of the text of `/proc/self/cgroup`.
pub(super) fn own<'a>(text: &'a str, hierarchy: &Hierarchy) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let ours = match hierarchy {
            Hierarchy::V2 => number == "0" && controllers.is_empty(),
            Hierarchy::V1(wanted) => Controller::listed(controllers, ',') == *wanted,
        };
        ours.then_some(path)
    })
}

impl Mount {
    /// Where the cgroup `own` is seen through this mount.
    ///
    /// The mount point itself if it is not below what is mounted, which is how a container looks
    /// that was given a part of the tree.
    pub(super) fn place_of(&self, own: &str) -> PathBuf {
        let below = Path::new(own).strip_prefix(&self.root).ok().filter(|it| {
            // `/..` is how a cgroup outside our cgroup namespace is spelled.
            it.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        });
        match below {
            Some(below) if below.as_os_str().is_empty() => self.point.clone(),
            Some(below) => self.point.join(below),
            None => self.point.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says for every hierarchy of the sample where we are in it.
    fn places(mountinfo: &str, cgroup: &str) -> Vec<String> {
        mounts(mountinfo)
            .iter()
            .map(|it| {
                let own = own(cgroup, &it.hierarchy).unwrap_or("(absent)");
                let kind = match &it.hierarchy {
                    Hierarchy::V2 => "v2".to_owned(),
                    Hierarchy::V1(list) => {
                        list.iter().map(|it| it.name()).collect::<Vec<_>>().join("+")
                    }
                };
                format!("{kind} {}", it.place_of(own).display())
            })
            .collect()
    }

    #[test]
    fn debian_12_login_as_root_on_v2() {
        let mountinfo = "\
24 31 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
31 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
";
        let cgroup = "0::/user.slice/user-0.slice/session-1.scope\n";
        assert_eq!(
            places(mountinfo, cgroup),
            ["v2 /sys/fs/cgroup/user.slice/user-0.slice/session-1.scope"]
        );
    }

    #[test]
    fn ubuntu_desktop_session_on_v2() {
        let mountinfo = "\
35 25 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
1021 30 0:63 / /run/user/1000/doc rw,nosuid,nodev,relatime shared:589 - fuse.portal portal rw,user_id=1000,group_id=1000
";
        let cgroup = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-terminal.slice/vte-spawn-1.scope\n";
        assert_eq!(
            places(mountinfo, cgroup),
            [
                "v2 /sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-terminal.slice/vte-spawn-1.scope"
            ]
        );
    }

    #[test]
    fn hybrid_with_each_controller_apart() {
        let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let cgroup = "\
9:name=systemd:/
8:pids:/
6:freezer:/
4:memory:/process_api/c7d2594a
3:cpuset:/
2:cpuacct:/
1:cpu:/
0::/
";
        assert_eq!(
            places(mountinfo, cgroup),
            [
                "cpu /sys/fs/cgroup/cpu",
                "cpuacct /sys/fs/cgroup/cpuacct",
                "memory /sys/fs/cgroup/memory/process_api/c7d2594a",
                "freezer /sys/fs/cgroup/freezer",
                "pids /sys/fs/cgroup/pids",
                "v2 /sys/fs/cgroup/unified",
            ]
        );
    }

    #[test]
    fn docker_on_v1_with_the_hosts_cgroup_namespace() {
        let mountinfo = "\
860 859 0:29 /docker/4f1c /sys/fs/cgroup/systemd ro,nosuid,nodev,noexec,relatime master:9 - cgroup cgroup rw,xattr,name=systemd
863 859 0:33 /docker/4f1c /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime master:16 - cgroup cgroup rw,cpu,cpuacct
864 859 0:34 /docker/4f1c /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:17 - cgroup cgroup rw,memory
";
        let cgroup = "\
5:memory:/docker/4f1c
4:cpu,cpuacct:/docker/4f1c
1:name=systemd:/docker/4f1c
0::/system.slice/containerd.service
";
        assert_eq!(
            places(mountinfo, cgroup),
            ["cpu+cpuacct /sys/fs/cgroup/cpu,cpuacct", "memory /sys/fs/cgroup/memory"]
        );
    }

    #[test]
    fn docker_on_v1_with_its_own_cgroup_namespace() {
        // The mounts were made outside the namespace, so their root climbs out of it.
        let mountinfo = "\
863 859 0:33 /../.. /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu,cpuacct
864 859 0:34 / /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory
";
        let cgroup = "5:memory:/\n4:cpu,cpuacct:/\n0::/\n";
        assert_eq!(
            places(mountinfo, cgroup),
            ["cpu+cpuacct /sys/fs/cgroup/cpu,cpuacct", "memory /sys/fs/cgroup/memory"]
        );
    }

    #[test]
    fn docker_on_v2_with_its_own_cgroup_namespace() {
        let mountinfo = "\
679 678 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot
";
        assert_eq!(places(mountinfo, "0::/\n"), ["v2 /sys/fs/cgroup"]);
        // A process that was put in from outside the namespace.
        assert_eq!(places(mountinfo, "0::/../sshd.service\n"), ["v2 /sys/fs/cgroup"]);
    }

    #[test]
    fn wsl2_without_and_with_systemd() {
        let hybrid = "\
77 70 0:35 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755
78 77 0:36 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw,nsdelegate
80 77 0:38 / /sys/fs/cgroup/cpu rw,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu
83 77 0:41 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory
96 70 0:53 / /mnt/c rw,noatime - 9p C:\\134 rw,dirsync,aname=drvfs;path=C:\\;uid=1000
";
        let cgroup = "5:memory:/\n2:cpu:/\n0::/\n";
        assert_eq!(
            places(hybrid, cgroup),
            [
                "v2 /sys/fs/cgroup/unified",
                "cpu /sys/fs/cgroup/cpu",
                "memory /sys/fs/cgroup/memory"
            ]
        );
        let unified = "\
78 77 0:36 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
        assert_eq!(
            places(unified, "0::/user.slice/user-1000.slice/session-2.scope\n"),
            ["v2 /sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"]
        );
    }

    #[test]
    fn a_mount_point_with_a_space_and_a_backslash() {
        let line = r"41 31 0:38 / /mnt/a\040b\134c rw - cgroup2 none rw";
        assert_eq!(
            mounts(line),
            [Mount {
                hierarchy: Hierarchy::V2,
                root: "/".to_owned(),
                point: PathBuf::from(r"/mnt/a b\c"),
            }]
        );
    }

    #[test]
    fn text_that_is_not_mountinfo_yields_nothing() {
        for text in ["", "\n\n", " - cgroup", "1 2 3 - cgroup2", "a b c d - cgroup x"] {
            assert_eq!(mounts(text), [], "{text:?}");
        }
    }
}
