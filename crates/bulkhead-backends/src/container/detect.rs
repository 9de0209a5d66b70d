//! Where a container daemon may be.
//!
//! A pure decision over the caller's variables and what lies on the disk. What the user named
//! (`DOCKER_HOST`, `CONTAINER_HOST`, a context) is the only place that is looked at: whoever names
//! one daemon does not want another.

mod context;

use std::{
    fmt, fs,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use bulkhead_spec::escape;
use serde::Serialize;

/// Whose daemon it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// Docker, or what speaks like it.
    Docker,
    /// Podman's service.
    Podman,
}

impl Product {
    /// The name by which flags and files know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The name by which people know it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }
}

/// What the caller's environment says about daemons. It is read elsewhere, once.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`, a directory.
    pub docker_config: Option<PathBuf>,
    /// Whether `DOCKER_TLS_VERIFY` or `DOCKER_TLS` asks for TLS.
    pub docker_tls: bool,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// The caller's home.
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The caller's user id.
    pub user: u32,
}

/// How a daemon is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Address {
    /// A socket on this machine.
    Unix(PathBuf),
    /// Host and port, without encryption; only where the user says so.
    Tcp(String),
    /// One that we do not speak, and why.
    Foreign {
        /// As it was written, escaped.
        text: String,
        /// What to do instead.
        hint: &'static str,
    },
}

impl Address {
    /// Reads an address as Docker and Podman write it.
    pub fn parse(text: &str) -> Self {
        let foreign = |hint| Self::Foreign { text: escape(text), hint };
        match text.split_once("://") {
            Some(("unix", path)) => Self::Unix(PathBuf::from(path)),
            Some(("tcp" | "http", host)) => Self::Tcp(host.trim_end_matches('/').to_owned()),
            Some(("ssh", _)) => foreign(
                "forward its socket and name that: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST, \
                 then DOCKER_HOST=unix:///tmp/docker.sock",
            ),
            Some(("npipe", _)) => foreign("named pipes are for Windows; use a unix socket"),
            None if text.starts_with('/') => Self::Unix(PathBuf::from(text)),
            Some(_) | None => foreign("use unix:///PATH or tcp://HOST:PORT"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix://{}", escape(&path.to_string_lossy())),
            Self::Tcp(host) => write!(out, "tcp://{}", escape(host)),
            Self::Foreign { text, hint: _ } => out.write_str(text),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

/// A place where a daemon may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Whose daemon we expect there.
    pub product: Product,
    /// Where.
    pub address: Address,
    /// Who says so: a variable, a context, or the usual place.
    pub said_by: String,
}

/// What there is on the disk, as far as it concerns daemons.
pub trait Disk {
    /// The text of a file, if it can be read.
    fn text(&self, path: &Path) -> Option<String>;
    /// The names in a directory, with their paths.
    fn entries(&self, dir: &Path) -> Vec<PathBuf>;
    /// Whether there is a socket.
    fn has_socket(&self, path: &Path) -> bool;
}

/// This machine's own disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisDisk;

impl Disk for ThisDisk {
    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn entries(&self, dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|it| it.path()).collect()
    }

    fn has_socket(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
    }
}

/// Where a daemon of `product` may be, the likeliest first.
pub fn candidates(
    product: Product,
    around: &Surroundings,
    disk: &dyn Disk,
) -> Result<Vec<Candidate>, context::Unknown> {
    let named = match product {
        Product::Docker => docker_named(around, disk)?,
        Product::Podman => around.container_host.as_ref().map(|it| named(it, "CONTAINER_HOST")),
    };
    if let Some((address, said_by)) = named {
        return Ok(vec![Candidate { product, address, said_by }]);
    }
    let usual = match product {
        Product::Docker => docker_usual(around),
        Product::Podman => podman_usual(around),
    };
    let mut found: Vec<Candidate> = Vec::new();
    for (path, said_by) in usual {
        let address = Address::Unix(path.clone());
        if disk.has_socket(&path) && found.iter().all(|it| it.address != address) {
            found.push(Candidate { product, address, said_by: said_by.to_owned() });
        }
    }
    Ok(found)
}

fn named(text: &str, by: &str) -> (Address, String) {
    (Address::parse(text), by.to_owned())
}

/// What the user told Docker's own client.
fn docker_named(
    around: &Surroundings,
    disk: &dyn Disk,
) -> Result<Option<(Address, String)>, context::Unknown> {
    if let Some(host) = &around.docker_host {
        let (address, by) = named(host, "DOCKER_HOST");
        let address = match address {
            Address::Tcp(host) if around.docker_tls => Address::Foreign {
                text: escape(&format!("tcp://{host} with TLS")),
                hint: "forward its socket over ssh and name that with DOCKER_HOST=unix:///PATH",
            },
            Address::Tcp(_) | Address::Unix(_) | Address::Foreign { .. } => address,
        };
        return Ok(Some((address, by)));
    }
    let config = around.docker_config.clone();
    let config = config.or_else(|| around.home.as_ref().map(|it| it.join(".docker")));
    context::current(around.docker_context.as_deref(), config.as_deref(), disk)
}

/// The order is that of Docker's own client: what it would talk to comes first.
fn docker_usual(around: &Surroundings) -> Vec<(PathBuf, &'static str)> {
    const OF_USER: &str = "the socket of your rootless daemon";
    const DESKTOP: &str = "the socket of Docker Desktop";
    let mut places = vec![
        (PathBuf::from("/var/run/docker.sock"), "the usual socket"),
        (PathBuf::from("/run/docker.sock"), "the usual socket"),
    ];
    places.extend(of_user(around).map(|dir| (dir.join("docker.sock"), OF_USER)));
    if let Some(home) = &around.home {
        places.push((home.join(".docker/desktop/docker.sock"), DESKTOP));
        places.push((home.join(".docker/run/docker.sock"), DESKTOP));
    }
    places
}

fn podman_usual(around: &Surroundings) -> Vec<(PathBuf, &'static str)> {
    const OF_USER: &str = "the socket of your own service";
    const MACHINE: &str = "the socket of the podman machine";
    let rootful = (PathBuf::from("/run/podman/podman.sock"), "the usual socket");
    let own = of_user(around).map(|dir| (dir.join("podman/podman.sock"), OF_USER));
    // As Podman's own client does: a user's containers are the user's.
    let mut places: Vec<_> = if around.user == 0 {
        std::iter::once(rootful).chain(own).collect()
    } else {
        own.chain([rootful]).collect()
    };
    if let Some(home) = &around.home {
        let machine = home.join(".local/share/containers/podman/machine");
        places.push((machine.join("podman.sock"), MACHINE));
        places.push((machine.join("qemu/podman.sock"), MACHINE));
    }
    places
}

/// Where sockets of this user are.
fn of_user(around: &Surroundings) -> impl Iterator<Item = PathBuf> {
    let usual = PathBuf::from(format!("/run/user/{}", around.user));
    around.runtime_dir.clone().into_iter().chain([usual])
}

pub use context::Unknown as UnknownContext;

#[cfg(test)]
mod tests;
