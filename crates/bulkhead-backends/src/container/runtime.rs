//! The runtimes that a daemon starts containers with, and whose kernel serves them.

use bulkhead_spec::escape;
use serde::Serialize;

use super::Product;

/// Whose kernel serves the programs of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// That of the machine the daemon runs on.
    Hosts,
    /// One in user space (gVisor), between the programs and the host's.
    UserSpace,
    /// One of its own, in a virtual machine (Kata, krun).
    Own,
}

/// One runtime that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// The name by which the daemon knows it.
    pub name: String,
    /// Its program, where the daemon says.
    pub program: Option<String>,
    /// Whose kernel serves its programs.
    pub kernel: Kernel,
    /// Why it starts nothing on this host, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuses: Option<&'static str>,
}

/// Why there is no runtime to start a sandbox with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRuntime {
    /// The daemon does not have it.
    #[error(
        "{} has no runtime `{}`; installed are {}",
        .product.title(), escape(.name), .installed.join(", ")
    )]
    Unknown {
        /// Whose daemon.
        product: Product,
        /// What was asked for.
        name: String,
        /// What there is.
        installed: Vec<String>,
    },
    /// It is there and starts nothing.
    #[error(
        "the runtime `{}` of {} starts nothing on this host: {why}",
        escape(.name), .product.title()
    )]
    Refuses {
        /// Whose daemon.
        product: Product,
        /// Which runtime.
        name: String,
        /// Why.
        why: &'static str,
    },
}

impl NoRuntime {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let name = match self {
            Self::Unknown { product: Product::Docker, name, .. } => name,
            Self::Unknown { product: Product::Podman, name, .. } => return podmans(name),
            Self::Refuses { product, .. } => return instead(*product),
        };
        let how = match name.as_str() {
            "runsc" | "gvisor" => {
                "install gVisor's `runsc` and type: sudo runsc install && sudo systemctl restart docker"
            }
            "kata" | "kata-runtime" => {
                "install Kata Containers and register its runtime with the daemon"
            }
            _ => "register it under \"runtimes\" in /etc/docker/daemon.json",
        };
        how.to_owned()
    }
}

impl Runtime {
    /// A runtime as the daemon lists it. What its program is called counts more than the name that
    /// somebody gave it.
    pub fn new(name: &str, program: Option<&str>) -> Self {
        let program = program.filter(|it| !it.is_empty());
        let told = program.unwrap_or(name);
        let base = told.rsplit('/').next().unwrap_or(told);
        Self {
            name: name.to_owned(),
            program: program.map(ToOwned::to_owned),
            kernel: kernel_of(base),
            refuses: None,
        }
    }

    /// The same on a host whose cgroups are `cgroups`.
    pub(super) fn on(self, cgroups: Cgroups) -> Self {
        let program = self.program.as_deref().unwrap_or(&self.name);
        let crun = program.rsplit('/').next() == Some("crun");
        let refuses = match cgroups {
            Cgroups::Both if crun => Some(BOTH),
            Cgroups::Both | Cgroups::One => None,
        };
        Self { refuses, ..self }
    }
}

/// Which cgroups have the controllers of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cgroups {
    /// Those of v1 or those of v2.
    One,
    /// Some are with v1, some with v2.
    Both,
}

/// What crun says on such a host.
const BOTH: &str = "it does not take cgroups of which some controllers are v1 and others v2";

/// How Podman comes to start containers with `runtime`.
fn podmans(runtime: &str) -> String {
    format!(
        "Podman's service starts every container with one runtime: set runtime = \"{}\" under \
         [engine] in /etc/containers/containers.conf (your own: ~/.config/containers/containers.conf) \
         and restart its service",
        escape(runtime)
    )
}

/// What to type where the runtime of `product` starts nothing.
pub(super) fn instead(product: Product) -> String {
    let other = match product {
        Product::Docker => "name another one: --runtime runc".to_owned(),
        Product::Podman => podmans("runc"),
    };
    format!("{other}; or boot with systemd.unified_cgroup_hierarchy=1")
}

/// By the names of programs and of containerd's shims (`io.containerd.runsc.v1`).
fn kernel_of(program: &str) -> Kernel {
    let is = |word: &str| {
        let mut parts = program.split(['-', '.', '_']);
        parts.any(|it| it == word)
    };
    if is("runsc") || is("gvisor") {
        Kernel::UserSpace
    } else if is("kata") || is("krun") {
        Kernel::Own
    } else {
        Kernel::Hosts
    }
}

#[cfg(test)]
mod tests {
    use super::{Cgroups, Kernel, Runtime};

    #[test]
    fn crun_refuses_cgroups_of_both_kinds() {
        let refuses =
            |name, program, cgroups| Runtime::new(name, program).on(cgroups).refuses.is_some();
        assert!(refuses("crun", Some("/usr/bin/crun"), Cgroups::Both));
        assert!(refuses("mine", Some("/opt/crun"), Cgroups::Both));
        assert!(refuses("crun", None, Cgroups::Both));
        assert!(!refuses("crun", Some("/usr/bin/crun"), Cgroups::One));
        assert!(!refuses("runc", Some("/usr/sbin/runc"), Cgroups::Both));
    }

    #[test]
    fn a_runtime_is_what_its_program_is() {
        let kernel = |name, program| Runtime::new(name, program).kernel;
        assert_eq!(kernel("runsc", Some("/usr/bin/runsc")), Kernel::UserSpace);
        assert_eq!(kernel("strong", Some("/usr/local/bin/runsc")), Kernel::UserSpace);
        assert_eq!(kernel("io.containerd.runsc.v1", None), Kernel::UserSpace);
        assert_eq!(kernel("kata", Some("/opt/kata/bin/kata-runtime")), Kernel::Own);
        assert_eq!(kernel("io.containerd.kata.v2", None), Kernel::Own);
        assert_eq!(kernel("krun", Some("/usr/bin/krun")), Kernel::Own);
        assert_eq!(kernel("runc", Some("runc")), Kernel::Hosts);
        assert_eq!(kernel("crun", Some("/usr/bin/crun")), Kernel::Hosts);
        // A name promises nothing that the program behind it does not keep.
        assert_eq!(kernel("runsc", Some("/usr/bin/runc")), Kernel::Hosts);
        assert_eq!(kernel("kata", Some("/usr/bin/runc")), Kernel::Hosts);
    }
}
