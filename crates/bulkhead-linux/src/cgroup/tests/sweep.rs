//! What the dead leave is removed, what the living have is not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// A directory such as a dead supervisor leaves.
fn abandoned(path: &Path) {
    rustix::fs::mkdir(path, rustix::fs::Mode::RWXU).unwrap();
}

#[test]
fn only_the_cgroup_of_a_supervisor_that_was_killed_is_swept() {
    let ground = Ground::named("sweep");
    let alive = ground.create("alive");
    let child = Child::spawn(&alive, "sleep");
    let owner = Child::outside(&format!("own {} dead", ground.cgroups.name));
    let inside = || population(&ground.cgroups, "dead");
    eventually("it is inhabited", || {
        inside().len() == all_slots(&ground.cgroups).len() && inside().iter().all(|it| *it == 1)
    });
    assert_eq!(ground.cgroups.sweep(), Vec::<String>::new());
    assert!(inside().iter().all(|it| *it == 1));

    owner.kill();
    owner.wait();
    // Its child has a copy of the lock up to the exec, which it may not have come to.
    eventually("it is swept", || ground.cgroups.sweep() == ["dead"]);
    assert_eq!(left_of(&ground.cgroups, "dead"), Vec::<PathBuf>::new());
    assert!(population(&ground.cgroups, "alive").iter().all(|it| *it == 1));
    drop(alive);
    assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
}

#[test]
fn a_directory_of_our_name_that_we_did_not_make_is_left_alone() {
    everywhere("stranger", |ground| {
        drop(ground.create("first"));
        for slots in all_slots(&ground.cgroups) {
            fs::create_dir(slots.path("theirs")).unwrap();
        }
        assert_eq!(ground.cgroups.sweep(), Vec::<String>::new());
        for slots in all_slots(&ground.cgroups) {
            fs::remove_dir(slots.path("theirs")).unwrap();
        }
    });
}

#[test]
fn cgroups_inside_a_dead_one_are_swept_with_it() {
    everywhere("nested", |ground| {
        // A first one makes whatever parents there have to be.
        drop(ground.create("first"));
        for slots in all_slots(&ground.cgroups) {
            abandoned(&slots.path("dead"));
            fs::create_dir_all(slots.path("dead").join("a/b")).unwrap();
            fs::create_dir(slots.path("dead").join("c")).unwrap();
        }
        assert_eq!(ground.cgroups.sweep(), ["dead"]);
        assert_eq!(left_of(&ground.cgroups, "dead"), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_died_in_another_cgroup_than_ours_is_swept() {
    everywhere("moved", |ground| {
        drop(ground.create("first"));
        // In one hierarchy of v1 the dead one was somewhere else, in the others where we are.
        let mut others = Vec::new();
        for (number, tree) in ground.cgroups.legacy().trees.iter().enumerate() {
            let other = tree.slots.parent().join(format!("{}_other", ground.cgroups.name));
            let dead = tree.slots.path("dead");
            if number == 0 {
                fs::create_dir(&other).unwrap();
                abandoned(&other.join(dead.file_name().unwrap()));
                others.push(other);
            } else {
                abandoned(&dead);
            }
        }
        if let Some(tree) = &ground.cgroups.v2 {
            abandoned(&tree.slots.path("dead"));
        }
        assert_eq!(ground.cgroups.sweep(), ["dead"]);
        assert_eq!(left_of(&ground.cgroups, "dead"), Vec::<PathBuf>::new());
        for other in others {
            assert_eq!(dir::children(&other), Vec::<std::ffi::OsString>::new());
            fs::remove_dir(other).unwrap();
        }
    });
}

/// Each hierarchy has others: whoever looks for all of them everywhere looks a million times.
#[test]
fn what_many_left_is_swept_without_a_search_for_each() {
    let ground = Ground::named("crowd");
    drop(ground.create("first"));
    let many = 600;
    let mut all = Vec::new();
    for (at, tree) in ground.cgroups.legacy().trees.iter().enumerate() {
        let ids = (0..many).map(|it| format!("{at}-{it:04}"));
        all.extend(ids.inspect(|id| abandoned(&tree.slots.path(id))));
    }
    let begun = Instant::now();
    assert_eq!(ground.cgroups.sweep(), all);
    let took = begun.elapsed();
    assert!(took.as_secs() < 5, "{} took {took:?}", all.len());
}

#[test]
fn what_is_not_ours_is_not_swept() {
    let ground = Ground::named("foreign");
    drop(ground.create("first"));
    let foreign = format!("{}x-y", ground.cgroups.name);
    let parents: Vec<_> =
        ground.cgroups.legacy().trees.iter().map(|it| it.slots.parent()).collect();
    for parent in &parents {
        fs::create_dir(parent.join(&foreign)).unwrap();
    }
    assert_eq!(ground.cgroups.sweep(), Vec::<String>::new());
    for parent in &parents {
        fs::remove_dir(parent.join(&foreign)).unwrap();
    }
}

#[test]
fn what_died_in_another_scope_of_ours_is_swept() {
    let ground = Ground::named("scopes");
    let tree = ground.cgroups.v2.as_ref().unwrap();
    v2::hand_down(&tree.base, &tree.controllers).unwrap();
    let slice = tree.base.join(format!("{}-slice", ground.cgroups.name));
    fs::create_dir(&slice).unwrap();
    v2::hand_down(&slice, &tree.controllers).unwrap();
    let scopes = ["bulkhead-1-a.scope", "bulkhead-2-b.scope", "other.scope"].map(|name| {
        let scope = slice.join(name);
        fs::create_dir(&scope).unwrap();
        let v2 = v2::Tree::at(&scope, &ground.cgroups.name, tree.controllers.clone());
        ground.cgroups.only(v2)
    });
    let alive = scopes[1].create("alive", &Limits::default()).unwrap();
    for scope in &scopes[1..] {
        let dead = all_slots(scope)[0].path("dead");
        fs::create_dir_all(dead.parent().unwrap()).unwrap();
        abandoned(&dead);
    }
    assert_eq!(scopes[0].sweep(), ["dead"]);
    assert_eq!(left_of(&scopes[1], "dead"), Vec::<PathBuf>::new());
    assert_eq!(left_of(&scopes[1], "alive").len(), 1);

    // In a scope that only looks similar.
    assert_eq!(left_of(&scopes[2], "dead").len(), 1);

    drop(alive);
    remove(&slice);
}

#[test]
fn a_directory_that_was_made_anew_in_the_meantime_is_not_taken() {
    let ground = Ground::named("anew");
    let path = ground.cgroups.legacy().trees.first().map(|it| it.slots.path("a"));
    let path = path.unwrap_or_else(|| ground.cgroups.v2.as_ref().unwrap().slots.path("a"));
    drop(ground.create("first"));
    // A sweeper has opened it, another one removes it, and its creator makes it again.
    abandoned(&path);
    let opened = fs::File::open(&path).unwrap();
    fs::remove_dir(&path).unwrap();
    let anew = dir::Dir::create(&path).unwrap();
    let late = dir::Dir::lock(&path, opened.into()).unwrap();
    assert!(matches!(late, dir::Claim::Absent), "{late:?}");
    anew.remove().unwrap();
}

#[test]
fn sweepers_and_creators_do_not_disturb_each_other() {
    everywhere("race", |ground| {
        let cgroups = &ground.cgroups;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sweepers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            cgroups.sweep();
                        }
                    })
                })
                .collect();
            let creators: Vec<_> = (0..2)
                .map(|creator| scope.spawn(move || create_and_drop(cgroups, creator)))
                .collect();
            let results: Vec<_> =
                creators.into_iter().map(thread::ScopedJoinHandle::join).collect();
            over.store(true, Ordering::Relaxed);
            for thread in sweepers {
                thread.join().unwrap();
            }
            for result in results {
                result.unwrap();
            }
        });
    });
}

fn create_and_drop(cgroups: &Cgroups, creator: u32) {
    for round in 0..150 {
        let id = format!("{creator}-{round}");
        let group = cgroups.create(&id, &ALL).unwrap();
        for dir in group.dirs() {
            // What we hold is what is there.
            let held = rustix::fs::fstat(dir.as_fd()).unwrap().st_ino;
            assert_eq!(rustix::fs::stat(dir.path()).unwrap().st_ino, held);
        }
        drop(group);
        assert_eq!(left_of(cgroups, &id), Vec::<PathBuf>::new());
    }
}
