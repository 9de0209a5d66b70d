use std::path::PathBuf;

use bulkhead_policy::{Plan, Policy, resolve};
use bulkhead_spec::{
    Access, Bytes, Cpus, EnvFiles, Limits, Network, Spec, Syscalls, Workspace,
};
use insta::assert_json_snapshot;

use super::*;
use crate::workspace::protect::How;

fn plan(ask: impl FnOnce(&mut Spec)) -> Plan {
    let mut spec = Spec {
        workspace: Some(Workspace {
            dir: "/work/project".parse().unwrap(),
            access: Access::ReadWrite,
            env_files: EnvFiles::Hidden,
            unprotected: Vec::new(),
        }),
        limits: Limits {
            memory: Some(Bytes(1 << 30)),
            cpus: Cpus::from_millis(1500).ok(),
            pids: Some(100),
            disk: Some(Bytes(16 << 20)),
            inodes: Some(1600),
            files: Some(4096),
            ..Limits::default()
        },
        ..Spec::default()
    };
    ask(&mut spec);
    resolve(spec, &Policy::default()).unwrap()
}

fn found() -> Found {
    let shown = |source: &str, to: &str, access| Shown {
        source: PathBuf::from(source),
        to: PathBuf::from(to),
        access,
        inode: None,
    };
    let protection = |path: &str, how| Protection { path: PathBuf::from(path), how };
    Found {
        id: "bh-1".to_owned(),
        instance: "00ff".to_owned(),
        image: Image { id: "sha256:12".to_owned(), volumes: vec![PathBuf::from("/data")] },
        user: User { uid: 1001, gid: 100, namespace: Users::Usual },
        runtime: None,
        kernel: Kernel::Hosts,
        caught: Caught::Names,
        disk: Disk::Split { kept: None },
        shares: vec![
            shown("/opt/tools", "/tools", Access::ReadOnly),
            shown("/work/project", "/work/project", Access::ReadWrite),
        ],
        protections: vec![
            protection("/work/project/.git", How::Pin),
            protection("/work/project/.git/hooks", How::ReadOnly),
            protection("/work/project/.git/modules", How::ReadOnly),
            protection("/work/project/.git/modules/library", How::Reopen),
            protection("/work/project/.envrc", How::Absent),
            protection("/work/project/.env", How::Hidden),
            protection("/work/project/sub/.git", How::AbsentGit),
        ],
        props: PathBuf::from("/state/guest/1"),
        names: PathBuf::from("/state/names/1001-100-home-sandbox"),
        plate: None,
    }
}

/// The list of system calls has its own tests.
fn body(plan: &Plan, found: &Found) -> serde_json::Value {
    let mut body = lower(plan, found).unwrap();
    body.seccomp = "LIST".to_owned();
    serde_json::to_value(body.request()).unwrap()
}

#[test]
fn a_workspace_of_an_ordinary_user() {
    assert_json_snapshot!(body(&plan(|_| ()), &found()));
}

#[test]
fn a_workspace_whose_owner_is_translated() {
    let shares = found().shares.into_iter().enumerate();
    let staged = |(at, it): (usize, Shown)| Shown {
        source: PathBuf::from(format!("/run/bulkhead/stages/bh-1/trees/{at}")),
        ..it
    };
    let found = Found {
        user: User { uid: 200_007, gid: 200_007, namespace: Users::Hosts },
        disk: Disk::Laid { dir: PathBuf::from("/run/bulkhead/stages/bh-1") },
        shares: shares.map(staged).collect(),
        runtime: Some("runsc".to_owned()),
        kernel: Kernel::UserSpace,
        ..found()
    };
    let open = plan(|spec| {
        spec.network = Network::Open;
        spec.tmpfs = vec!["/scratch".parse().unwrap()];
        spec.limits = Limits::default();
    });
    assert_json_snapshot!(body(&open, &found));
}

#[test]
fn no_plan_makes_a_container_that_is_more_than_a_sandbox() {
    let widest = plan(|spec| {
        spec.network = Network::Open;
        spec.syscalls = Syscalls::Debug;
        spec.limits = Limits::default();
    });
    let request = lower(&widest, &found()).unwrap().request();
    let host = request.host_config.unwrap();
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
    assert_eq!(host.cap_add, None);
    assert_eq!(host.devices, None);
    assert_eq!(host.device_requests, None);
    assert_eq!(host.pid_mode, None);
    assert_eq!(host.uts_mode, None);
    assert_eq!(host.ipc_mode.unwrap(), "private");
    assert_eq!(host.binds, None);
    assert_eq!(host.volumes_from, None);
    assert_eq!(host.sysctls, None);
    assert!(host.security_opt.unwrap().contains(&"no-new-privileges".to_owned()));
    assert_eq!(host.log_config.unwrap().typ.unwrap(), "none");
}

/// Where the daemon's root is the user whose daemon it is, the guest becomes somebody first: that
/// takes one capability, and whatever belongs to that root must be out of reach.
#[test]
fn nobody_stays_root_at_a_rootless_docker() {
    let apart = User { uid: 0, gid: 0, namespace: Users::Apart };
    let lowered = lower(&plan(|_| ()), &Found { user: apart, ..found() }).unwrap();
    assert!(lowered.lines().first().unwrap().ends_with("as user 1000:1000"));
    let request = lowered.request();
    assert_eq!(request.user.unwrap(), "0:0");
    assert_eq!(request.entrypoint.unwrap(), [GUEST_AT, "--apart", "1000"]);
    let host = request.host_config.unwrap();
    assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
    assert_eq!(host.cap_add.unwrap(), ["SETFCAP"]);
    assert!(host.readonly_paths.unwrap().contains(&"/dev".to_owned()));
    assert_eq!(host.userns_mode, None);
}

/// What every place gets together is no more than what was allowed.
#[test]
fn the_disk_is_split_and_not_multiplied() {
    let plan = plan(|spec| spec.tmpfs = vec!["/scratch".parse().unwrap()]);
    let places = disk::split(&plan, &found());
    let bytes: u64 = places.iter().map(|it| it.bytes).sum();
    let inodes: u64 = places.iter().map(|it| it.inodes - 1).sum();
    assert!((15 << 20..=16 << 20).contains(&bytes), "{bytes}");
    assert!((1500..=1600).contains(&inodes), "{inodes}");
    assert!(places.iter().any(|it| it.at.as_os_str() == "/data"), "{places:?}");
}

/// A daemon refuses two mounts at one place.
#[test]
fn each_place_has_one_mount() {
    let mut found = found();
    let path = PathBuf::from("/work/project/.envrc");
    found.protections.push(Protection { path, how: How::Hidden });
    let path = PathBuf::from("/work/project");
    found.protections.push(Protection { path, how: How::Pin });
    let at_home = plan(|spec| spec.home = Some("/work/project".parse().unwrap()));
    for disk in [Disk::Split { kept: None }, Disk::Laid { dir: PathBuf::from("/stage") }] {
        let body = lower(&at_home, &Found { disk, ..found.clone() }).unwrap();
        let tmpfs = body.tmpfs.iter().map(|it| &it.at);
        let mut places: Vec<_> = body.mounts.iter().map(|it| &it.target).chain(tmpfs).collect();
        let all = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), all);
        let hidden = body.mounts.iter().find(|it| it.target.ends_with(".envrc")).unwrap();
        assert!(hidden.source.ends_with("blank"), "{hidden:?}");
        let home = body.mounts.iter().find(|it| it.target.ends_with("project")).unwrap();
        assert!(home.source.ends_with("work/project"), "{home:?}");
    }
}

#[test]
fn the_guest_lets_programs_write_where_the_daemon_does() {
    let walls = walls(&plan(|_| ()), &found());
    let paths: Vec<_> = walls.writable.iter().map(|it| String::from_utf8_lossy(it)).collect();
    assert_eq!(
        paths,
        [
            "/proc",
            "/tmp",
            "/home/sandbox",
            "/var/tmp",
            "/run",
            "/dev/shm",
            "/data",
            "/work/project"
        ]
    );
    assert_eq!(walls.files, Some(4096));
}
