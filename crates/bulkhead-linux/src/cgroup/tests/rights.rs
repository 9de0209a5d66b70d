//! What may be held by whom.

use std::os::unix::fs::chown;

use rustix::fs::{Mode, OFlags};

use super::super::{CgroupError, Delegation, Entry, Version};
use super::*;

/// A v2 cgroup that we hand over to nobody, with what is below it.
struct HandedOver(PathBuf);

impl HandedOver {
    fn new(ground: &Ground, name: &str) -> HandedOver {
        let tree = ground.cgroups.v2.as_ref().unwrap();
        v2::hand_down(&tree.base, &tree.controllers).unwrap();
        let own = HandedOver(tree.base.join(format!("{}-{name}", ground.cgroups.name)));
        own.add("");
        own
    }

    fn add(&self, below: &str) -> PathBuf {
        let path = self.0.join(below);
        fs::create_dir(&path).unwrap();
        for file in ["", "cgroup.procs", "cgroup.subtree_control"] {
            chown(path.join(file), Some(65534), Some(65534)).unwrap();
        }
        path
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Plays the role in the cgroup, to its good end.
fn play(cgroup: &Path, role: &str) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(cgroup, flags, Mode::empty()).unwrap();
    let entry = Entry { v2: Some(std::os::fd::AsFd::as_fd(&fd)), tasks: Vec::new() };
    let status = Child::enter(&entry, role).wait();
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

#[test]
fn root_holds_everything() {
    let cgroups = Cgroups::probe();
    let v2 = Some(Version::V2);
    match cgroups.layout() {
        Layout::V2 => {
            for feature in [Feature::Memory, Feature::Cpu, Feature::Processes] {
                assert_eq!(cgroups.holds(feature), v2);
            }
            assert_eq!(cgroups.delegation(), Delegation::Held);
        }
        Layout::Hybrid | Layout::V1 => {
            for feature in [Feature::Memory, Feature::Cpu, Feature::Processes] {
                assert!(cgroups.holds(feature).is_some());
            }
        }
        Layout::Absent => panic!("no cgroups are mounted here"),
    }
    if cgroups.layout() != Layout::V1 {
        for feature in [Feature::CpuTime, Feature::Freeze, Feature::Kill] {
            assert_eq!(cgroups.holds(feature), v2);
        }
    }
}

#[test]
fn an_ordinary_user_without_delegation_holds_nothing() {
    let cgroups = std::thread::spawn(|| {
        child::become_nobody();
        let cgroups = Cgroups::probe();
        // As this user, before anybody else asks.
        cgroups.layout();
        cgroups
    })
    .join()
    .unwrap();
    for feature in [
        Feature::Memory,
        Feature::Cpu,
        Feature::Processes,
        Feature::CpuTime,
        Feature::Freeze,
        Feature::Kill,
    ] {
        assert_eq!(cgroups.holds(feature), None, "{feature}");
        assert!(!cgroups.within_reach(feature), "{feature}");
    }
    assert_eq!(cgroups.delegation(), Delegation::None);
    let error = cgroups.create("a", &ALL).unwrap_err();
    assert!(matches!(error, CgroupError::Unheld(Feature::Memory)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "no cgroup that this process may use holds a limit on memory"
    );
}

#[test]
fn an_ordinary_user_uses_what_was_handed_over() {
    let ground = Ground::named("user");
    let own = HandedOver::new(&ground, "d");
    let leaf = own.add("leaf");
    play(&leaf, &format!("delegated x {}", own.0.display()));
}

#[test]
fn who_is_alone_in_its_cgroup_steps_aside_to_divide_it() {
    let ground = Ground::named("alone");
    let own = HandedOver::new(&ground, "d");
    play(&own.0, "alone x");
}
