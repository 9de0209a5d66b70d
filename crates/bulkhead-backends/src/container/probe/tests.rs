use std::path::PathBuf;

use super::*;

const VERSION: &str = r#"{"Version": "20.10.24+dfsg1", "ApiVersion": "1.41", "Components": [
    {"Name": "Engine", "Version": "20.10.24+dfsg1"}, {"Name": "runc", "Version": "1.1.5+ds1"}]}"#;
const PODMAN: &str = r#"{"Version": "4.3.1", "Components": [
    {"Name": "Podman Engine", "Version": "4.3.1"}, {"Name": "Conmon", "Version": "2.1.6"}]}"#;

/// What a daemon says that holds everything.
pub(in crate::container) const INFO: &str = r#"{
    "Driver": "overlay2", "DockerRootDir": "/var/lib/docker",
    "MemoryLimit": true, "SwapLimit": true, "PidsLimit": true,
    "CpuCfsPeriod": true, "CpuCfsQuota": true,
    "CgroupDriver": "cgroupfs", "CgroupVersion": "1", "KernelVersion": "6.1.0",
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "Runtimes": {"runc": {"path": "runc"}, "gone": {"path": "/nonexistent/kata-runtime"}},
    "DefaultRuntime": "runc", "SecurityOptions": ["name=seccomp,profile=default"],
    "Warnings": null}"#;

/// The facts of a daemon that says `info` with some of it said otherwise.
pub(in crate::container) fn facts(changes: &str) -> Facts {
    understood(VERSION, changes)
}

fn understood(version: &str, changes: &str) -> Facts {
    let mut info: serde_json::Value = serde_json::from_str(INFO).unwrap();
    let changes: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(changes).unwrap();
    info.as_object_mut().unwrap().extend(changes);
    let candidate = Candidate {
        product: Product::Docker,
        address: Address::parse("unix:///var/run/docker.sock"),
        said_by: "the usual socket".to_owned(),
    };
    let version = serde_json::from_str(version).unwrap();
    let host = Host { kernel: "6.1.0".to_owned(), cgroups: Cgroups::Both };
    understand(&candidate, &version, serde_json::from_value(info).unwrap(), &host)
}

#[test]
fn a_daemon_is_understood() {
    let runc = Runtime::new("runc", Some("runc"));
    assert_eq!(
        facts("{}"),
        Facts {
            product: Product::Docker,
            address: Address::Unix(PathBuf::from("/var/run/docker.sock")),
            said_by: "the usual socket".to_owned(),
            version: "20.10.24+dfsg1".to_owned(),
            runc: Some("1.1.5+ds1".to_owned()),
            cgroup: Cgroup { version: 1, driver: "cgroupfs".to_owned() },
            holds: [Held::Memory, Held::Swap, Held::Pids, Held::Cpu].into(),
            seccomp: true,
            identity: Identity::Rootful,
            // What is not on the disk is not installed.
            runtimes: [("runc".to_owned(), runc)].into(),
            default_runtime: "runc".to_owned(),
            storage: "overlay2".to_owned(),
            machine: Machine::This,
            warnings: Vec::new(),
        }
    );
}

#[test]
fn podman_behind_dockers_address_is_known() {
    assert_eq!(understood(PODMAN, "{}").product, Product::Podman);
}

#[test]
fn limits_that_the_daemon_does_not_hold_are_not_assumed() {
    let holds = |changes| facts(changes).holds;
    assert_eq!(holds(r#"{"SwapLimit": false}"#), [Held::Memory, Held::Pids, Held::Cpu].into());
    assert_eq!(holds(r#"{"PidsLimit": null}"#), [Held::Memory, Held::Swap, Held::Cpu].into());
    assert!(!holds(r#"{"CpuCfsPeriod": false}"#).contains(&Held::Cpu));
}

#[test]
fn who_the_containers_are_is_read_from_the_security_options() {
    let identity = |changes| facts(changes).identity;
    assert_eq!(
        identity(r#"{"SecurityOptions": ["name=seccomp", "name=rootless", "name=cgroupns"]}"#),
        Identity::Rootless
    );
    assert_eq!(
        identity(
            r#"{"SecurityOptions": ["name=userns"], "DockerRootDir": "/var/lib/docker/231072.231073"}"#
        ),
        Identity::Remapped { root: Some((231_072, 231_073)) }
    );
    assert_eq!(
        identity(r#"{"SecurityOptions": ["name=userns"]}"#),
        Identity::Remapped { root: None }
    );
}

#[test]
fn another_kernel_is_another_machine() {
    assert_eq!(facts(r#"{"KernelVersion": "6.6.0-linuxkit"}"#).machine, Machine::Other);
    assert_eq!(facts(r#"{"OperatingSystem": "Docker Desktop"}"#).machine, Machine::Other);
}

#[test]
fn a_runtime_that_is_not_there_is_refused_with_those_that_are() {
    let facts = facts("{}");
    assert_eq!(facts.runtime(None).unwrap().name, "runc");
    let error = facts.runtime(Some("runsc")).unwrap_err();
    assert_eq!(error.to_string(), "Docker has no runtime `runsc`; installed are runc");
    assert!(error.hint().contains("runsc install"));
}

#[test]
fn a_runtime_that_starts_nothing_here_is_passed_over_and_refused_by_name() {
    let facts = facts(
        r#"{"Runtimes": {"crun": {"path": "crun"}, "runc": {"path": "runc"}}, "DefaultRuntime": "crun"}"#,
    );
    assert_eq!(facts.runtime(None).unwrap().name, "runc");
    let error = facts.runtime(Some("crun")).unwrap_err();
    assert!(error.to_string().starts_with("the runtime `crun` of Docker starts nothing"));
    assert!(error.hint().contains("--runtime runc"));
    let alone = Facts { runtimes: facts.runtimes.into_iter().take(1).collect(), ..facts };
    assert!(alone.runtime(None).is_err());
}

#[tokio::test]
async fn a_socket_on_which_nobody_listens_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let at = format!("unix://{}", path.display());
    let around = Surroundings { docker_host: Some(at.clone()), ..Surroundings::default() };
    let error = find(Product::Docker, &around).await.unwrap_err();
    assert_eq!(error.to_string(), format!("Docker at `{at}` does not answer"));
    assert!(error.hint().contains("systemctl restart docker"), "{}", error.hint());
}

#[tokio::test]
async fn what_is_no_daemon_is_said_to_be_none() {
    use tokio::io::AsyncWriteExt as _;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.write_all(b"220 mail.example ESMTP\r\n").await);
        }
    });
    let at = format!("unix://{}", path.display());
    let around = Surroundings { docker_host: Some(at), ..Surroundings::default() };
    let error = find(Product::Docker, &around).await.unwrap_err();
    assert!(matches!(error, Unavailable::Odd { .. }), "{error}");
    server.abort();
}
