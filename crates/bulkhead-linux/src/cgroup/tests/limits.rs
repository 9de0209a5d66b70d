//! Each limit is set as asked, binds, and is counted when it does.

use std::io;

use super::super::{CgroupError, Usage, Version};
use super::*;

/// The content of a control file, by the name that it has in the one or the other hierarchy.
fn control(group: &Cgroup, v1: &str, v2: &str) -> String {
    let mut found = group.dirs().flat_map(|dir| [dir.path().join(v1), dir.path().join(v2)]);
    let path = found.find(|it| it.is_file()).unwrap();
    fs::read_to_string(path).unwrap().trim().to_owned()
}

fn controls(group: &Cgroup) -> [String; 3] {
    let cpu = control(group, "cpu.cfs_quota_us", "cpu.max");
    [
        control(group, "memory.limit_in_bytes", "memory.max"),
        cpu.strip_suffix(" 100000").unwrap_or(&cpu).to_owned(),
        control(group, "pids.max", "pids.max"),
    ]
}

#[test]
fn limits_are_set_and_changed_as_asked() {
    everywhere("set", |ground| {
        let group = ground.create("a");
        assert_eq!(controls(&group), ["67108864", "50000", "300"]);
        let more =
            Limits { memory: Some(128 << 20), cpu_millis: Some(2000), processes: Some(500) };
        group.set(&more).unwrap();
        assert_eq!(controls(&group), ["134217728", "200000", "500"]);
        group.set(&Limits { memory: Some(32 << 20), ..Limits::default() }).unwrap();
        assert_eq!(controls(&group), ["33554432", "200000", "500"]);
        group.set(&Limits { processes: Some(7), ..Limits::default() }).unwrap();
        assert_eq!(controls(&group), ["33554432", "200000", "7"]);
    });
}

#[test]
fn there_is_no_swap_beyond_the_memory() {
    everywhere("swap", |ground| {
        let group = ground.create("a");
        // With v1 the sum of both is bounded, with v2 the swap alone.
        let swap = match ground.cgroups.holds(Feature::Memory).unwrap() {
            Version::V1 => control(&group, "memory.memsw.limit_in_bytes", "memory.swappiness"),
            Version::V2 => control(&group, "memory.swap.max", "cgroup.type"),
        };
        assert!(["67108864", "0", "domain"].contains(&swap.as_str()), "{swap}");
    });
}

#[test]
fn a_child_that_needs_too_much_memory_is_killed_and_counted() {
    everywhere("memory", |ground| {
        let group = ground.create("a");
        let calm = Child::spawn(&group, "sleep");
        let hungry = Child::spawn(&group, "hog 128");
        assert_eq!(hungry.wait().terminating_signal(), Some(libc::SIGKILL));
        let usage = group.usage();
        assert!(usage.oom_kills > 0, "{usage:?}");
        let peak = usage.memory_peak.unwrap();
        assert!((32 << 20..=64 << 20).contains(&peak), "{usage:?}");
        // One hungry child does not take the others with it.
        for dir in group.dirs() {
            assert_eq!(dir::processes(dir.path()), [calm.pid()]);
        }
    });
}

#[test]
fn a_fork_too_many_is_refused_and_counted() {
    everywhere("fork", |ground| {
        let group = ground.create("a");
        group.set(&Limits { processes: Some(8), ..Limits::default() }).unwrap();
        let child = Child::spawn(&group, "fork 32");
        assert_eq!(child.wait().exit_status(), Some(0));
        let usage = group.usage();
        assert!(usage.process_refusals > 0, "{usage:?}");
        assert!(matches!(usage.processes_peak, None | Some(8)), "{usage:?}");
    });
}

/// How often the processes had to wait for the next period.
fn throttled(group: &Cgroup) -> u64 {
    let texts = group.dirs().map(|it| it.read("cpu.stat").unwrap_or_default());
    texts.filter_map(|it| dir::keyed(&it, "nr_throttled")).sum()
}

#[test]
fn cpu_time_grows_no_faster_than_the_quota() {
    everywhere("cpu", |ground| {
        let group = ground.create("a");
        group.set(&Limits { cpu_millis: Some(200), ..Limits::default() }).unwrap();
        assert_eq!(group.cpu_time(), Some(Duration::ZERO));
        let started = Instant::now();
        let _child = Child::spawn(&group, "spin");
        eventually("it is throttled", || throttled(&group) >= 8);
        let (used, passed) = (group.cpu_time().unwrap(), started.elapsed());
        assert!(
            used > Duration::from_millis(20) && used < passed / 2,
            "{used:?} of {passed:?}"
        );
        assert_eq!(group.usage().oom_kills, 0);
    });
}

#[test]
fn a_fresh_cgroup_has_used_nothing() {
    everywhere("fresh", |ground| {
        let usage = ground.create("a").usage();
        let none = Usage {
            memory: usage.memory.map(|_| 0),
            memory_peak: usage.memory_peak.map(|_| 0),
            cpu_time: Some(Duration::ZERO),
            processes_peak: usage.processes_peak.map(|_| 0),
            oom_kills: 0,
            process_refusals: 0,
        };
        assert_eq!(usage, none);
    });
}

#[test]
fn a_limit_that_the_kernel_refuses_is_an_error_and_leaves_nothing() {
    everywhere("refused", |ground| {
        // Less than a millisecond per period.
        let limits = Limits { cpu_millis: Some(1), ..ALL };
        let error = ground.cgroups.create("a", &limits).unwrap_err();
        let CgroupError::Write { path, source, .. } = &error else { panic!("{error:?}") };
        assert!(path.ends_with("cpu.cfs_quota_us") || path.ends_with("cpu.max"), "{path:?}");
        assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(left_of(&ground.cgroups, "a"), Vec::<PathBuf>::new());
    });
}

#[test]
fn an_id_that_is_taken_is_refused_and_its_owner_not_disturbed() {
    everywhere("taken", |ground| {
        let first = ground.create("a");
        let child = Child::spawn(&first, "sleep");
        let error = ground.cgroups.create("a", &ALL).unwrap_err();
        let CgroupError::Make { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
        assert!(first.dirs().all(|it| dir::processes(it.path()) == [child.pid()]));
    });
}

#[test]
fn an_id_that_is_no_plain_name_is_refused() {
    let ground = Ground::named("name");
    for id in ["", ".", "..", "a/b", "cgroup.procs", "a b", "ä", &"a".repeat(65)] {
        let error = ground.cgroups.create(id, &ALL).unwrap_err();
        assert!(matches!(error, CgroupError::Name(_)), "{id}: {error:?}");
    }
}

#[test]
fn a_share_of_the_cpu_that_is_held_tighter_around_us_is_held() {
    let ground = Ground::named("tighter");
    let outer = ground.create("outer");
    // With v1, inside the cgroup with half a CPU; v2 accepts any share there.
    let mut cgroups = ground.cgroups.clone();
    for tree in &mut cgroups.legacy.get_mut().unwrap().trees {
        let inside = tree.slots.path("outer");
        tree.slots = dir::Slots::beside(&inside, "inner");
    }
    let inner = cgroups.create("inner", &ALL).unwrap();
    inner.set(&Limits { cpu_millis: Some(400), ..Limits::default() }).unwrap();
    inner.set(&Limits { cpu_millis: Some(2000), ..Limits::default() }).unwrap();
    drop(inner);
    drop(outer);
}
