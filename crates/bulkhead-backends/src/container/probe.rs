//! Asks a daemon what it is and what it holds. Nothing is assumed: a daemon that cannot hold a
//! limit prints a warning and starts the container all the same.

mod unavailable;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use bollard::{
    API_DEFAULT_VERSION, Docker,
    models::{SystemInfo, SystemInfoCgroupVersionEnum, SystemVersion},
};
use serde::Serialize;
use tokio::{net::UnixStream, time::timeout};

use super::{
    Address, Candidate, NoRuntime, Product, Runtime, Surroundings, candidates,
    detect::ThisDisk, podman, runtime::Cgroups,
};
pub use unavailable::Unavailable;

/// How long a daemon may think about what it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found out about a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Whose daemon answered, whatever was expected.
    pub product: Product,
    /// Where it is.
    pub address: Address,
    /// Who says so.
    pub said_by: String,
    /// Its version.
    pub version: String,
    /// The version of its runc, if it says so.
    pub runc: Option<String>,
    /// How it limits.
    pub cgroup: Cgroup,
    /// Which limits it really holds.
    pub holds: BTreeSet<Held>,
    /// Whether it can filter system calls.
    pub seccomp: bool,
    /// Who its containers are on its machine.
    pub identity: Identity,
    /// The runtimes that are there, by name.
    pub runtimes: BTreeMap<String, Runtime>,
    /// The one that is used if nobody names one.
    pub default_runtime: String,
    /// How it stores images.
    pub storage: String,
    /// Whether its machine is this one or a virtual one (Docker Desktop, podman machine).
    pub machine: Machine,
    /// What it complains about itself.
    pub warnings: Vec<String>,
}

/// How a daemon limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// 1 or 2.
    pub version: u8,
    /// `cgroupfs`, `systemd` or `none`.
    pub driver: String,
}

/// A limit that a daemon can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Held {
    /// Memory.
    Memory,
    /// Memory and swap together.
    Swap,
    /// Processes and threads.
    Pids,
    /// Processor time per period.
    Cpu,
}

/// Who the containers of a daemon are on its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// Users in the container are the same users outside.
    Rootful,
    /// Users in the container are others outside, from these on where it is known.
    Remapped {
        /// The user and group that root in the container is outside.
        root: Option<(u32, u32)>,
    },
    /// The daemon has no more rights than its user.
    Rootless,
}

/// Where a daemon's containers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Machine {
    /// On the kernel that we run on.
    This,
    /// On another one: a virtual machine on this desk, or another computer.
    Other,
}

impl Facts {
    /// A client for this daemon; each request may take `patience`.
    pub fn connect(&self, patience: Duration) -> Result<Docker, bollard::errors::Error> {
        connect(&self.address, patience)
    }

    /// The runtime called `name`; else the daemon's own choice, or where that starts nothing here,
    /// another one of its kind.
    pub fn runtime(&self, name: Option<&str>) -> Result<Runtime, NoRuntime> {
        let runtime = self.named(name)?;
        let Some(why) = runtime.refuses else { return Ok(runtime) };
        let able = |it: &&Runtime| it.refuses.is_none() && it.kernel == runtime.kernel;
        let other = self.runtimes.values().find(able).filter(|_| name.is_none());
        let refused =
            NoRuntime::Refuses { product: self.product, name: runtime.name.clone(), why };
        other.cloned().ok_or(refused)
    }

    fn named(&self, name: Option<&str>) -> Result<Runtime, NoRuntime> {
        let wanted = name.unwrap_or(&self.default_runtime);
        match (self.runtimes.get(wanted), name) {
            (Some(runtime), _) => Ok(runtime.clone()),
            // Some daemons do not list what they use themselves.
            (None, None) => Ok(Runtime::new(wanted, None)),
            (None, Some(name)) => Err(NoRuntime::Unknown {
                product: self.product,
                name: name.to_owned(),
                installed: self.runtimes.keys().cloned().collect(),
            }),
        }
    }
}

fn connect(address: &Address, patience: Duration) -> Result<Docker, bollard::errors::Error> {
    let seconds = patience.as_secs().max(1);
    match address {
        Address::Unix(path) => {
            Docker::connect_with_unix(&path.to_string_lossy(), seconds, API_DEFAULT_VERSION)
        }
        Address::Tcp(host) => {
            Docker::connect_with_http(&format!("tcp://{host}"), seconds, API_DEFAULT_VERSION)
        }
        Address::Foreign { text, hint: _ } => {
            Err(bollard::errors::Error::UnsupportedURISchemeError { uri: text.clone() })
        }
    }
}

/// The first daemon of `product` that answers.
///
/// Where none does, the error is that of the likeliest place.
pub async fn find(product: Product, around: &Surroundings) -> Result<Facts, Unavailable> {
    let found = candidates(product, around, &ThisDisk)?;
    let mut first = None;
    for candidate in &found {
        match probe(candidate).await {
            Ok(facts) => return Ok(facts),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(Unavailable::Nowhere { product }))
}

/// Asks the daemon at `candidate`.
pub async fn probe(candidate: &Candidate) -> Result<Facts, Unavailable> {
    let Candidate { product, address, said_by: _ } = candidate;
    if let Address::Foreign { text: _, hint } = address {
        return Err(Unavailable::Foreign { at: address.to_string(), product: *product, hint });
    }
    let peer = match address {
        Address::Unix(path) => knock(*product, path).await?,
        Address::Tcp(_) | Address::Foreign { .. } => None,
    };
    let odd = |source: bollard::errors::Error| Unavailable::Odd {
        product: *product,
        at: address.to_string(),
        why: bulkhead_spec::escape(&source.to_string()),
    };
    // Only our own clock says that it is slow.
    let docker = connect(address, 2 * PATIENCE).map_err(odd)?;
    let asked = async { tokio::try_join!(docker.version(), docker.info()) };
    match timeout(PATIENCE, asked).await {
        Ok(Ok((version, info))) => {
            let facts = understand(candidate, &version, info, &Host::this());
            Ok(match facts.product {
                Product::Docker => facts,
                Product::Podman => podman::correct(facts, peer),
            })
        }
        Ok(Err(error)) => Err(odd(error)),
        Err(_) => Err(Unavailable::Slow {
            product: *product,
            at: address.to_string(),
            seconds: PATIENCE.as_secs(),
        }),
    }
}

/// Opens the socket, since its refusal says more here than through a client, and tells whose it is.
async fn knock(product: Product, path: &Path) -> Result<Option<u32>, Unavailable> {
    let at = Address::Unix(path.to_owned()).to_string();
    match timeout(PATIENCE, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Ok(stream.peer_cred().ok().map(|it| it.uid())),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Unavailable::Denied { product, at })
        }
        Ok(Err(source)) => Err(Unavailable::Down { product, at, source }),
        Err(_) => Err(Unavailable::Slow { product, at, seconds: PATIENCE.as_secs() }),
    }
}

/// What of this host decides what a daemon on it can do.
struct Host {
    kernel: String,
    cgroups: Cgroups,
}

impl Host {
    fn this() -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        // Where v1 is mounted, v2 lies beside it.
        let beside = std::fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers");
        let both = beside.is_ok_and(|it| !it.trim().is_empty());
        Self { kernel, cgroups: if both { Cgroups::Both } else { Cgroups::One } }
    }
}

/// Facts from the daemon's two answers.
fn understand(
    candidate: &Candidate,
    version: &SystemVersion,
    info: SystemInfo,
    host: &Host,
) -> Facts {
    let components = version.components.iter().flatten();
    let is_podman = components.clone().any(|it| it.name.contains("Podman"));
    let product = match (is_podman, candidate.product) {
        (true, _) => Product::Podman,
        // Others than Docker speak like it, and are Docker for us.
        (false, Product::Docker | Product::Podman) => Product::Docker,
    };
    let runc = components.clone().find(|it| it.name == "runc").map(|it| it.version.clone());
    let same = info.kernel_version.as_deref() == Some(host.kernel.as_str())
        && info.operating_system.as_deref() != Some("Docker Desktop");
    let machine = if same { Machine::This } else { Machine::Other };
    Facts {
        product,
        address: candidate.address.clone(),
        said_by: candidate.said_by.clone(),
        version: version.version.clone().unwrap_or_default(),
        runc,
        cgroup: cgroup(&info),
        holds: holds(&info),
        seccomp: has_option(&info, "seccomp"),
        identity: identity(&info),
        runtimes: match machine {
            Machine::This => runtimes(&info, product, host.cgroups),
            Machine::Other => listed(&info, Some),
        },
        default_runtime: info.default_runtime.unwrap_or_default(),
        storage: info.driver.unwrap_or_default(),
        machine,
        warnings: info.warnings.unwrap_or_default(),
    }
}

fn cgroup(info: &SystemInfo) -> Cgroup {
    let version = match info.cgroup_version {
        Some(SystemInfoCgroupVersionEnum::_2) => 2,
        Some(SystemInfoCgroupVersionEnum::_1 | SystemInfoCgroupVersionEnum::EMPTY) | None => 1,
    };
    let driver = info.cgroup_driver.map(|it| it.to_string()).unwrap_or_default();
    Cgroup { version, driver }
}

fn holds(info: &SystemInfo) -> BTreeSet<Held> {
    let said = [
        (Held::Memory, info.memory_limit),
        (Held::Swap, info.swap_limit),
        (Held::Pids, info.pids_limit),
        (Held::Cpu, info.cpu_cfs_quota.filter(|_| info.cpu_cfs_period != Some(false))),
    ];
    said.into_iter().filter(|(_, held)| *held == Some(true)).map(|(it, _)| it).collect()
}

/// Options read like `name=seccomp,profile=default`.
fn has_option(info: &SystemInfo, name: &str) -> bool {
    let mut options = info.security_options.iter().flatten();
    options.any(|it| it.split(',').next() == Some(format!("name={name}").as_str()))
}

fn identity(info: &SystemInfo) -> Identity {
    if has_option(info, "rootless") {
        return Identity::Rootless;
    }
    if !has_option(info, "userns") {
        return Identity::Rootful;
    }
    // A daemon that remaps keeps its data apart, in a directory `UID.GID`.
    let dir = info.docker_root_dir.as_ref().and_then(|dir| {
        let name = Path::new(dir).file_name()?.to_str()?.to_owned();
        let (user, group) = name.split_once('.')?;
        Some((user.parse().ok()?, group.parse().ok()?))
    });
    Identity::Remapped { root: dir }
}

/// The runtimes of a daemon on this host: what is not on its disk is not installed.
fn runtimes(
    info: &SystemInfo,
    product: Product,
    cgroups: Cgroups,
) -> BTreeMap<String, Runtime> {
    let there = |runtime: Runtime| {
        let found = match runtime.program.as_deref().filter(|it| it.starts_with('/')) {
            None => Some(runtime),
            Some(path) if Path::new(path).exists() => Some(runtime),
            Some(path) => match product {
                Product::Docker => None,
                Product::Podman => podman::elsewhere(path).map(|it| Runtime {
                    program: it.to_str().map(ToOwned::to_owned),
                    ..runtime
                }),
            },
        };
        found.map(|it| it.on(cgroups))
    };
    listed(info, there)
}

/// What the daemon lists, as far as `there` takes it.
fn listed(
    info: &SystemInfo,
    there: impl Fn(Runtime) -> Option<Runtime>,
) -> BTreeMap<String, Runtime> {
    let all = info.runtimes.iter().flatten();
    all.filter_map(|(name, it)| {
        Some((name.clone(), there(Runtime::new(name, it.path.as_deref()))?))
    })
    .collect()
}

#[cfg(test)]
pub(in crate::container) mod tests;
