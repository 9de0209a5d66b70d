//! A container as the daemon is asked for it.
//!
//! Invariant: what makes it a wall is not a field. There is no value of [`Body`] that is
//! privileged, keeps a capability, may gain one, writes to its root or to the daemon's log.

use std::{collections::HashMap, path::Path};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use bulkhead_spec::{Access, Caught, Network, escape_bytes};

use super::{GUEST_AT, INSIDE, Mount, Reach, User, Users, disk::Tmpfs};

/// What differs from container to container.
#[derive(Clone, Debug)]
pub(in crate::container) struct Body {
    pub(super) image: String,
    pub(super) labels: [(&'static str, String); 2],
    /// What the machine is called inside.
    pub(super) host: String,
    pub(super) user: User,
    pub(super) runtime: Option<String>,
    pub(super) network: Network,
    pub(super) caught: Caught,
    pub(super) seccomp: String,
    pub(super) mounts: Vec<Mount>,
    pub(super) tmpfs: Vec<Tmpfs>,
    pub(super) memory: Option<u64>,
    pub(super) cpu_millis: Option<u32>,
    pub(super) processes: Option<u32>,
    pub(super) files: Option<u32>,
}

/// What tells about the host or its kernel. A daemon hides some of it by itself; this is its list
/// and ours. `/sys` is the host's as a whole.
const HIDDEN: [&str; 17] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/driver",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
];

/// What changes the host's kernel when written.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What belongs to root and lies on no disk that the plan bounds: the user of a sandbox who is root
/// to the daemon could write there.
const ROOTS: &str = "/dev";

/// What the kernel asks of a root before it lets root be somebody else in a user namespace. The
/// guest drops it before it hears of any program.
const APART: &str = "SETFCAP";

impl Body {
    /// The list of system calls, as text.
    pub(in crate::container) fn seccomp(&self) -> &str {
        &self.seccomp
    }

    /// Whether it has no network but its own.
    pub(in crate::container) fn is_cut_off(&self) -> bool {
        match self.network {
            Network::None | Network::Proxy | Network::Observe => true,
            Network::Open => false,
        }
    }

    /// Whether the daemon makes a tmpfs at `path`.
    pub(in crate::container) fn has_tmpfs(&self, path: &Path) -> bool {
        self.tmpfs.iter().any(|it| it.at == path)
    }

    /// In Docker's words.
    pub(in crate::container) fn request(&self) -> ContainerCreateBody {
        let User { uid, gid, namespace: _ } = self.user;
        let some = |text: &str| Some(text.to_owned());
        let labels =
            self.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        ContainerCreateBody {
            image: Some(self.image.clone()),
            labels: Some(labels.collect()),
            user: Some(format!("{uid}:{gid}")),
            hostname: Some(self.host.clone()),
            working_dir: some("/"),
            entrypoint: Some(self.guest()),
            cmd: Some(Vec::new()),
            env: Some(Vec::new()),
            // An image can name a program that the daemon runs inside every few seconds.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            // The guest ends with its stream, however that ends.
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            // The first process of a namespace hears no other.
            stop_signal: some("SIGKILL"),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
        }
    }

    fn guest(&self) -> Vec<String> {
        let role = match self.user.namespace {
            Users::Usual | Users::Hosts | Users::Kept => vec!["--stdio".to_owned()],
            Users::Apart => vec!["--apart".to_owned(), INSIDE.to_string()],
        };
        [GUEST_AT.to_owned()].into_iter().chain(role).collect()
    }

    /// For people, a line each.
    pub(in crate::container) fn lines(&self) -> Vec<String> {
        let (uid, gid) = self.user.inside();
        let shown = |path: &Path| escape_bytes(path.as_os_str().as_encoded_bytes());
        let mut lines = vec![
            format!("start from the image `{}`, read-only, as user {uid}:{gid}", self.image),
            "drop every capability, forbid new privileges, filter system calls".to_owned(),
            match (self.network, self.caught) {
                (Network::None, _) => "give it a network of its own, without an interface",
                (Network::Proxy | Network::Observe, Caught::EveryAddress) => {
                    "give it a network of its own, in which every address is the gateway's"
                }
                (Network::Proxy | Network::Observe, Caught::Names) => {
                    "give it a network of its own, in which names lead to the gateway and \
                     addresses nowhere"
                }
                (Network::Open, _) => "let it use the network of the host",
            }
            .to_owned(),
        ];
        lines.extend(self.memory.map(|it| format!("limit memory to {it} bytes, without swap")));
        lines
            .extend(self.cpu_millis.map(|it| format!("limit it to {it} thousandths of a CPU")));
        lines.extend(self.processes.map(|it| format!("limit it to {it} processes")));
        lines.extend(self.files.map(|it| format!("limit each process to {it} open files")));
        for Tmpfs { at, bytes, inodes, mode: _ } in &self.tmpfs {
            let at = shown(at);
            lines.push(format!("mount an empty `{at}` of {bytes} bytes and {inodes} files"));
        }
        for Mount { source, target, access, reach: _ } in &self.mounts {
            lines.push(format!("show `{}` at `{}` {access:?}", shown(source), shown(target)));
        }
        lines
    }

    fn host(&self) -> HostConfig {
        let some = |text: &str| Some(text.to_owned());
        let list = |of: &[&str]| Some(of.iter().map(|it| (*it).to_owned()).collect());
        let memory = self.memory.map(signed);
        let apart = self.user.namespace == Users::Apart;
        HostConfig {
            runtime: self.runtime.clone(),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            cap_drop: list(&["ALL"]),
            cap_add: apart.then(|| vec![APART.to_owned()]),
            security_opt: Some(vec![
                "no-new-privileges".to_owned(),
                format!("seccomp={}", self.seccomp),
            ]),
            masked_paths: list(&HIDDEN),
            readonly_paths: list(
                &[&READ_ONLY[..], if apart { &[ROOTS] } else { &[] }].concat(),
            ),
            ipc_mode: some("private"),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            userns_mode: match self.user.namespace {
                Users::Usual | Users::Apart => None,
                Users::Hosts => some("host"),
                Users::Kept => some("keep-id"),
            },
            network_mode: some(if self.is_cut_off() { "none" } else { "host" }),
            // The daemon would write the host's own into the sandbox.
            dns: self.is_cut_off().then(|| vec!["127.0.0.1".to_owned()]),
            sysctls: self.sysctls(),
            log_config: Some(HostConfigLogConfig { typ: some("none"), config: None }),
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            auto_remove: Some(false),
            init: Some(false),
            memory,
            // Memory and swap together: none is left for swap.
            memory_swap: memory,
            nano_cpus: self.cpu_millis.map(|it| i64::from(it) * 1_000_000),
            pids_limit: self.processes.map(i64::from),
            ulimits: Some(self.ulimits()),
            tmpfs: Some(self.tmpfs.iter().map(|it| self.tmpfs(it)).collect()),
            mounts: Some(self.mounts.iter().map(bind).collect()),
            ..HostConfig::default()
        }
    }

    /// Where the guest listens for the gateway, it does so at ports of the web and of names, and has
    /// no capability for that.
    fn sysctls(&self) -> Option<HashMap<String, String>> {
        match (self.network, self.caught) {
            (Network::Proxy | Network::Observe, Caught::Names) => {
                let (name, value) = ("net.ipv4.ip_unprivileged_port_start", "0");
                Some([(name.to_owned(), value.to_owned())].into())
            }
            (Network::Proxy | Network::Observe, Caught::EveryAddress)
            | (Network::None | Network::Open, _) => None,
        }
    }

    fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let limit = |name: &str, most: i64| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(most),
            hard: Some(most),
        };
        let files = self.files.map(|it| limit("nofile", i64::from(it)));
        // As the guest sets them itself; some runtimes let only the daemon do it.
        let always = [
            limit("core", 0),
            limit("memlock", 64 << 10),
            limit("msgqueue", 0),
            limit("nice", 0),
            limit("rtprio", 0),
            limit("sigpending", 4096),
        ];
        always.into_iter().chain(files).collect()
    }

    fn tmpfs(&self, it: &Tmpfs) -> (String, String) {
        let User { uid, gid, namespace: _ } = self.user;
        let Tmpfs { at, bytes, inodes, mode } = it;
        let options = format!(
            "rw,exec,nosuid,nodev,size={bytes},nr_inodes={inodes},mode={mode:04o},uid={uid},gid={gid}"
        );
        (text(at), options)
    }
}

fn bind(it: &Mount) -> bollard::models::Mount {
    bollard::models::Mount {
        typ: Some(MountType::BIND),
        source: Some(text(&it.source)),
        target: Some(text(&it.target)),
        read_only: Some(it.access == Access::ReadOnly),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: (it.reach == Reach::Alone).then_some(true),
            ..MountBindOptions::default()
        }),
        ..bollard::models::Mount::default()
    }
}

/// Paths that are not text are refused before.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
