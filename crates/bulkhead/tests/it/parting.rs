//! What a run has left when its caller goes on, and a moment later.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    crash::{groups, listing},
    host::{Host, processes_with, within},
    work::Work,
};

const CGROUPS: &str = "/sys/fs/cgroup";

#[test]
fn the_workspace_is_as_it_was_when_a_run_returns_and_soon_so_is_the_host() {
    let host = Host::new();
    let before = listing(&host.project());
    for round in 0..20 {
        let name = format!("parting-{}-{round}", std::process::id());
        let ran = host.bulkhead(["run", "--name", &name, "--", "true"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert_eq!(listing(&host.project()), before, "round {round}");
        within(Duration::from_secs(5), || groups(Path::new(CGROUPS), &name).is_empty());
        within(Duration::from_secs(5), || processes_with(&name).is_empty());
    }
}

#[test]
fn what_a_program_left_running_has_ended_when_its_run_returns() {
    let host = Host::new();
    let script = "(setsid sh -c 'while :; do echo x >> said; done' &); \
                  until [ -s said ]; do :; done";
    for _ in 0..5 {
        let ran = host.bulkhead(["run", "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let said = host.project().join("said");
        let length = fs::metadata(&said).unwrap().len();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(fs::metadata(&said).unwrap().len(), length);
        fs::remove_file(said).unwrap();
    }
}

#[test]
fn a_reader_of_the_output_does_not_wait_for_who_stays_behind() {
    let host = Host::new();
    let ran = host.ended(&mut host.shell("test \"$(\"$0\" run -- echo said)\" = said"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// The guest that was laid below `state`.
fn laid(state: &Path) -> PathBuf {
    let guests = listing(&state.join("guest"));
    guests.into_iter().find(|it| it.is_file() && it.ends_with("guest")).unwrap()
}

#[test]
fn the_guest_is_laid_once_and_nobody_inside_can_write_to_it() {
    let work = Work::of_ordinary_user();
    assert_eq!(work.shell("\"$0\" run -- true").code, Some(0));
    let guest = laid(&work.host.state());
    let (content, inode) = (fs::read(&guest).unwrap(), fs::metadata(&guest).unwrap().ino());
    assert_eq!(fs::metadata(&guest).unwrap().permissions().mode() & 0o777, 0o555);
    // It belongs to whoever runs inside.
    let ran = work.shell(
        "\"$0\" run -- sh -c 'readlink /proc/1/exe || echo unseen; \
         chmod u+w /proc/1/exe || echo kept; echo spoilt >> /proc/1/exe || echo whole'",
    );
    assert_eq!(ran.stdout, "unseen\nkept\nwhole\n", "{ran:?}");
    assert_eq!(fs::read(&guest).unwrap(), content);
    assert_eq!(fs::metadata(&guest).unwrap().ino(), inode);
}
