//! Where Podman's service speaks like Docker and means something else: all of it is here.
//!
//! | Docker's words | what Podman does with them | what is said instead |
//! |---|---|---|
//! | `seccomp=TEXT` | takes the text for the name of a file | `seccomp=FILE` |
//! | masked paths | passes over them | `mask=PATH:PATH` |
//! | no limit on files, processes | asks for a million, which a host may refuse | our own limit |
//! | tmpfs with an owner and a number of files | knows neither | `U`: owned by the user inside |
//! | no word on `/etc/hosts` | writes the host's own names and address there | a list of our own |
//! | a runtime | takes its own instead | nothing; only its own is offered |
//! | other limits for what runs | knows them only from its fifth version on | its own words, in `libpod` |
//! | what it is and holds | calls itself rootful, and limits what it cannot limit | see [`correct`] |
//!
//! Invariant: nothing here takes a wall away that the request has; what Podman cannot be told is
//! not promised (see `findings`).

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bollard::{
    Docker,
    errors::Error,
    models::{
        ContainerCreateBody, ContainerInspectResponse, HostConfig, Mount, MountBindOptions,
        MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
    },
};
use rustix::process::{Resource, getrlimit};

use super::{Container, Facts, Identity, Machine, lower::Body};
use crate::BackendError;

/// How long Podman may take to notice that a container has ended.
const NOTICE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// Names that every machine has, and nothing about this one.
const HOSTS: &str = "127.0.0.1\tlocalhost bulkhead\n::1\tlocalhost\n";

/// What stands for Docker's words.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// Where the service finds the list of system calls.
    pub(super) seccomp: PathBuf,
    /// Where it finds the names of hosts.
    pub(super) hosts: PathBuf,
    /// The most open files and processes that this host lets anybody have.
    pub(super) most: [Option<u64>; 2],
}

impl Container {
    /// The request for `body`, to Podman.
    pub(super) fn for_podman(&self, body: &Body) -> Result<ContainerCreateBody, BackendError> {
        let lay = |name: &str, text: &str| {
            lay(&self.places.state.join("podman"), name, text).map_err(|source| {
                BackendError::System { action: "write what Podman reads from files", source }
            })
        };
        let words = Words {
            seccomp: self.seen(&lay("seccomp", body.seccomp())?)?,
            hosts: self.seen(&lay("hosts", HOSTS)?)?,
            most: match self.daemon.facts.machine {
                Machine::This => most(),
                Machine::Other => [None, None],
            },
        };
        Ok(adapt(body, &words))
    }
}

/// The most open files and processes that a service on this host can let anybody have. It takes
/// no more processes for itself than the kernel can number.
fn most() -> [Option<u64>; 2] {
    let numbers = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    let numbers = numbers.and_then(|it| it.trim().parse().ok());
    let processes = getrlimit(Resource::Nproc).maximum;
    [getrlimit(Resource::Nofile).maximum, processes.into_iter().chain(numbers).min()]
}

/// The request for `body` in Podman's meaning.
pub(super) fn adapt(body: &Body, words: &Words) -> ContainerCreateBody {
    let mut request = body.request();
    let host = request.host_config.take().unwrap_or_default();
    let masked = host.masked_paths.clone().unwrap_or_default().join(":");
    let tmpfs = host.tmpfs.clone().unwrap_or_default();
    let mut mounts = host.mounts.clone().unwrap_or_default();
    if body.is_cut_off() {
        mounts.push(shown(&words.hosts, "/etc/hosts"));
    }
    request.host_config = Some(HostConfig {
        security_opt: Some(vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", words.seccomp.display()),
            format!("mask={masked}"),
        ]),
        ulimits: Some(ulimits(host.ulimits.clone().unwrap_or_default(), words.most)),
        tmpfs: Some(
            tmpfs.into_iter().map(|(at, options)| (at, understood(&options))).collect(),
        ),
        mounts: Some(mounts),
        ..host
    });
    request
}

/// With a number for each that Podman would choose itself.
fn ulimits(mut limits: Vec<ResourcesUlimits>, most: [Option<u64>; 2]) -> Vec<ResourcesUlimits> {
    for (name, most) in ["nofile", "nproc"].into_iter().zip(most) {
        let said = limits.iter().any(|it| it.name.as_deref() == Some(name));
        if let Some(most) = most.and_then(|it| i64::try_from(it).ok()).filter(|_| !said) {
            limits.push(ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(most),
                hard: Some(most),
            });
        }
    }
    limits
}

/// The options of a tmpfs that Podman knows. It copies what the image has below it, mode included,
/// unless told otherwise.
fn understood(options: &str) -> String {
    let foreign =
        |it: &&str| !["uid=", "gid=", "nr_inodes="].iter().any(|no| it.starts_with(no));
    let known: Vec<&str> = options.split(',').filter(foreign).collect();
    format!("{},U,notmpcopyup", known.join(","))
}

fn shown(source: &Path, target: &str) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// Writes `text` below `dir`, under a name of its own, unless it is there.
fn lay(dir: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let path = dir.join(format!("{name}-{:016x}", hash.finish()));
    if std::fs::read_to_string(&path).is_ok_and(|it| it == text) {
        return Ok(path);
    }
    std::fs::create_dir_all(dir)?;
    let draft =
        dir.join(format!(".{name}-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&draft, text)?;
    // Whatever the caller's mask: the service may be somebody else, and so are programs inside.
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o444))?;
    std::fs::rename(&draft, &path)?;
    Ok(path)
}

/// What the service says about itself, made true. `peer` is the user whose service it is, where
/// that can be seen.
///
/// A rootless one does not say so to Docker's clients. With cgroup v1 it passes over every limit,
/// though it says that it holds them. And it passes over the runtime that a client names, though it
/// lists several: everything is started with its own.
pub(super) fn correct(mut facts: Facts, peer: Option<u32>) -> Facts {
    let others = facts.machine == Machine::This && peer.is_some_and(|it| it != 0);
    if others {
        facts.identity = Identity::Rootless;
    }
    if facts.identity == Identity::Rootless && facts.cgroup.version == 1 {
        facts.holds.clear();
    }
    let own = facts.default_runtime.clone();
    facts.runtimes.retain(|name, _| *name == own);
    facts
}

/// What is said of a container whose first process is gone, once Podman has taken note of that.
/// Until then it says that the container runs, or that it is `stopped`, which is no word of Docker's.
pub(super) async fn settled(
    docker: &Docker,
    container: &str,
) -> Result<ContainerInspectResponse, Error> {
    let deadline = Instant::now() + NOTICE;
    loop {
        let found = docker.inspect_container(container, None).await;
        let early = match &found {
            Ok(found) => found.state.as_ref().is_some_and(|it| it.running == Some(true)),
            Err(error) => matches!(error, Error::JsonDataError { .. }),
        };
        if !early || deadline < Instant::now() {
            return found;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether `message` says no more than that a container is ending just now: Podman refuses to
/// remove it then, and calls that a failure of its own.
pub(super) fn is_passing(message: &str) -> bool {
    message.contains("container state improper")
}

/// Where a runtime is that the service lists at `path`: it names the first of the places at which
/// it would look itself.
pub(super) fn elsewhere(path: &str) -> Option<PathBuf> {
    let name = Path::new(path).file_name()?;
    let dirs = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"];
    dirs.iter().map(|dir| Path::new(dir).join(name)).find(|it| it.exists())
}

#[cfg(test)]
mod tests {
    use super::{correct, elsewhere, lay, understood};
    use crate::container::{Identity, probe::tests::facts};

    #[test]
    fn a_service_of_somebody_without_rights_is_rootless_and_holds_no_limit_with_cgroup_v1() {
        let rootless = correct(facts("{}"), Some(1000));
        assert_eq!((rootless.identity, rootless.holds.len()), (Identity::Rootless, 0));
        let rootful = correct(facts("{}"), Some(0));
        assert_eq!((rootful.identity, rootful.holds.len()), (Identity::Rootful, 4));
        let modern = correct(facts(r#"{"CgroupVersion": "2"}"#), Some(1000));
        assert_eq!((modern.identity, modern.holds.len()), (Identity::Rootless, 4));
        let machine = correct(facts(r#"{"KernelVersion": "6.6.0-machine"}"#), Some(1000));
        assert_eq!(machine.identity, Identity::Rootful);
    }

    #[test]
    fn only_known_options_of_a_tmpfs_are_said() {
        assert_eq!(
            understood("rw,exec,nosuid,nodev,size=8192,nr_inodes=10,mode=0700,uid=1,gid=2"),
            "rw,exec,nosuid,nodev,size=8192,mode=0700,U,notmpcopyup"
        );
    }

    #[test]
    fn a_runtime_is_looked_for_where_the_service_would() {
        assert!(elsewhere("/nonexistent/sh").is_some());
        assert_eq!(elsewhere("/usr/bin/no-such-runtime"), None);
    }

    #[test]
    fn a_text_is_written_once_and_mended() {
        let dir = tempfile::tempdir().unwrap();
        let path = lay(dir.path(), "hosts", "one").unwrap();
        assert_eq!(lay(dir.path(), "hosts", "one").unwrap(), path);
        assert_ne!(lay(dir.path(), "hosts", "two").unwrap(), path);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "forged").unwrap();
        assert_eq!(lay(dir.path(), "hosts", "one").unwrap(), path);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    }
}
