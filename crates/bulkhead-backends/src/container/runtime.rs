//! The runtimes that a daemon starts containers with, and whose kernel serves them.

use bulkhead_spec::escape;
use serde::Serialize;

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
}

/// A runtime that the daemon does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{daemon} has no runtime `{}`; installed are {}", escape(.name), .installed.join(", ")
)]
pub struct UnknownRuntime {
    /// Whose daemon.
    pub daemon: &'static str,
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub installed: Vec<String>,
}

impl UnknownRuntime {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let how = match self.name.as_str() {
            "runsc" | "gvisor" => {
                "install gVisor's `runsc` and type: sudo runsc install && sudo systemctl restart docker"
            }
            "kata" | "kata-runtime" => {
                "install Kata Containers and register its runtime with the daemon"
            }
            _ => {
                "register it under \"runtimes\" in /etc/docker/daemon.json (Podman: containers.conf)"
            }
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
        }
    }
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
    use super::{Kernel, Runtime};

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
