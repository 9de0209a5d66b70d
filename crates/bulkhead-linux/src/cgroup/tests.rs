//! On the real kernel, in whatever hierarchies this host has.
//!
//! They need the right to make cgroups with all limits, which root has, and fail without it.
//! Where v1 and v2 are mounted side by side, each runs twice: with both, and with v1 alone.

mod child;
mod limits;
mod rights;
mod sweep;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::child::Child;
use super::parse::{self, Controller, Hierarchy};
use super::{Cgroup, Cgroups, Feature, Layout, Limits, dir, kill, place, v2};

const ALL: Limits =
    Limits { memory: Some(64 << 20), cpu_millis: Some(500), processes: Some(300) };

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The cgroups of one test, under a name of their own, of which nothing may be left at its end.
struct Ground {
    cgroups: Cgroups,
}

impl Ground {
    fn named(test: &str) -> Ground {
        Ground::checked(place::probe(&format!("bhtest-{}-{test}", std::process::id())))
    }

    /// As on a host without v2, if this one has v1 as well.
    fn without_v2(test: &str) -> Option<Ground> {
        if place::probe("bhtest").layout() != Layout::Hybrid {
            return None;
        }
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let mut mounts = parse::mounts(&read("/proc/self/mountinfo"));
        mounts.retain(|it| it.hierarchy != Hierarchy::V2);
        let name = format!("bhtest-{}-{test}-v1", std::process::id());
        Some(Ground::checked(place::among(&mounts, &read("/proc/self/cgroup"), &name)))
    }

    fn checked(cgroups: Cgroups) -> Ground {
        for feature in [
            Feature::Memory,
            Feature::Cpu,
            Feature::Processes,
            Feature::CpuTime,
            Feature::Freeze,
        ] {
            assert!(
                cgroups.holds(feature).is_some(),
                "these tests need a cgroup that holds {feature}; run them as root: {cgroups:?}"
            );
        }
        Ground { cgroups }
    }

    fn create(&self, id: &str) -> Cgroup {
        self.cgroups.create(id, &ALL).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for slots in all_slots(&self.cgroups) {
            assert_eq!(slots.ids().collect::<Vec<_>>(), Vec::<String>::new(), "{slots:?}");
        }
        // The parent that stays with v2 has no purpose after a test.
        if let Some(tree) = self.cgroups.v2.as_ref().filter(|it| !it.controllers.is_empty()) {
            match fs::remove_dir(tree.slots.parent()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Runs the test in every way that this host offers.
fn everywhere(test: &str, body: impl Fn(&Ground)) {
    body(&Ground::named(test));
    if let Some(ground) = Ground::without_v2(test) {
        body(&ground);
    }
}

fn all_slots(cgroups: &Cgroups) -> Vec<&dir::Slots> {
    let v1 = cgroups.legacy().trees.iter().chain(&cgroups.legacy().freezer).map(|it| &it.slots);
    v1.chain(cgroups.v2.iter().map(|it| &it.slots)).collect()
}

/// The directories that exist under this id.
fn left_of(cgroups: &Cgroups, id: &str) -> Vec<PathBuf> {
    all_slots(cgroups).iter().map(|it| it.path(id)).filter(|it| it.exists()).collect()
}

/// How many processes are in the cgroup, in each hierarchy.
fn population(cgroups: &Cgroups, id: &str) -> Vec<usize> {
    left_of(cgroups, id).iter().map(|it| dir::processes(it).len()).collect()
}

/// Removes a cgroup that a test has made by hand, with those below it.
fn remove(cgroup: &Path) {
    dir::remove_tree(cgroup).unwrap();
}

fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(kill::until(Instant::now() + PATIENCE, is_so), "{what}, in {PATIENCE:?}");
}

#[test]
fn a_process_is_in_every_hierarchy_from_its_start() {
    everywhere("entry", |ground| {
        let group = ground.create("a");
        let child = Child::spawn(&group, "sleep");
        for dir in group.dirs() {
            assert_eq!(dir::processes(dir.path()), [child.pid()]);
        }
    });
}

#[test]
fn nothing_is_left_of_a_cgroup_that_is_dropped_with_processes_in_it() {
    everywhere("drop", |ground| {
        let group = ground.create("a");
        let child = Child::spawn(&group, "brood 20");
        eventually("20 are there", || population(&ground.cgroups, "a")[0] >= 21);
        drop(group);
        assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
        assert_eq!(left_of(&ground.cgroups, "a"), Vec::<PathBuf>::new());
    });
}

/// Ends 200 processes, daemons and deaf ones among them, by `kill`.
fn end_of_200(ground: &Ground, kill: impl Fn(&Cgroup)) {
    let group = ground.create("a");
    let child = Child::spawn(&group, "brood 200");
    eventually("200 are there", || population(&ground.cgroups, "a")[0] >= 201);
    kill(&group);
    assert!(group.wait_empty(Instant::now() + PATIENCE));
    assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
    assert!(population(&ground.cgroups, "a").iter().all(|it| *it == 0));
}

#[test]
fn kill_ends_all_processes_at_once() {
    everywhere("kill", |ground| end_of_200(ground, |group| group.kill().unwrap()));
}

#[test]
fn without_a_kill_file_all_processes_are_ended_one_by_one() {
    everywhere("one", |ground| end_of_200(ground, |group| group.kill_one_by_one().unwrap()));
}

#[test]
fn without_a_limit_on_forks_they_are_ended_standing_still() {
    everywhere("still", |ground| {
        let mut cgroups = ground.cgroups.clone();
        let pids = |it: &Controller| *it != Controller::Pids;
        // There are none where all is v2.
        let legacy = cgroups.legacy.get_mut().into_iter();
        legacy.flat_map(|it| &mut it.trees).for_each(|it| it.controllers.retain(pids));
        cgroups.v2.iter_mut().for_each(|it| it.controllers.retain(pids));
        let group = cgroups.create("a", &Limits { processes: None, ..ALL }).unwrap();
        let child = Child::spawn(&group, "brood 40");
        eventually("40 are there", || population(&ground.cgroups, "a")[0] >= 41);
        group.kill_one_by_one().unwrap();
        assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
    });
}

/// Ends a fork bomb that has reached its limit, with half a CPU.
fn end_of_a_bomb(ground: &Ground, kill: impl Fn(&Cgroup)) {
    let limits = Limits { processes: Some(60), ..ALL };
    let group = ground.cgroups.create("a", &limits).unwrap();
    let child = Child::spawn(&group, "bomb");
    eventually("it has met the limit", || group.usage().process_refusals > 0);
    kill(&group);
    assert!(group.wait_empty(Instant::now() + PATIENCE));
    assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
}

#[test]
fn a_fork_bomb_is_killed_at_once() {
    everywhere("bomb", |ground| end_of_a_bomb(ground, |group| group.kill().unwrap()));
}

#[test]
fn a_fork_bomb_is_killed_one_by_one() {
    everywhere("bombs", |ground| end_of_a_bomb(ground, |it| it.kill_one_by_one().unwrap()));
}

#[test]
fn a_frozen_cgroup_is_killed() {
    everywhere("frozen", |ground| {
        end_of_200(ground, |group| {
            group.freeze().unwrap();
            group.kill().unwrap();
        });
    });
}

#[test]
fn frozen_processes_use_no_cpu_until_they_are_thawed() {
    everywhere("freeze", |ground| {
        let group = ground.create("a");
        let _child = Child::spawn(&group, "spin");
        let time = || group.cpu_time().unwrap();
        eventually("it spins", || time() > Duration::from_millis(20));
        group.freeze().unwrap();
        let still = time();
        // Half a CPU for this long would be seen.
        std::thread::sleep(Duration::from_millis(60));
        let moved = time().saturating_sub(still);
        assert!(moved < Duration::from_millis(5), "{moved:?}");
        group.thaw().unwrap();
        eventually("it goes on", || time() > still + Duration::from_millis(20));
    });
}

#[test]
fn waiting_for_the_end_of_a_living_process_ends_at_the_deadline() {
    everywhere("wait", |ground| {
        let group = ground.create("a");
        let _child = Child::spawn(&group, "sleep");
        let started = Instant::now();
        assert!(!group.wait_empty(started + Duration::from_millis(30)));
        assert!(started.elapsed() >= Duration::from_millis(30));
    });
}
