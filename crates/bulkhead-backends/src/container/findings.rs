//! Which promises a daemon lets us keep, and what to type for the others.

use bulkhead_spec::Guarantee;

use super::{
    Facts, Held, Identity, Kernel, Machine, Product, Runtime,
    create::caller,
    who::{Way, decide},
};
use crate::Finding;

/// Each promise, in the order of [`Guarantee::ALL`], for sandboxes that `runtime` starts.
pub fn findings(facts: &Facts, runtime: &Runtime) -> Vec<Finding> {
    Guarantee::ALL.into_iter().filter_map(|it| finding(it, facts, runtime)).collect()
}

fn finding(guarantee: Guarantee, facts: &Facts, runtime: &Runtime) -> Option<Finding> {
    let upheld = |by: &str| Finding::upheld(guarantee, by);
    Some(match guarantee {
        Guarantee::HostFilesHidden => upheld("mount namespace, root of the image"),
        Guarantee::WorkspaceOnlyWritable => upheld("read-only root and mounts"),
        Guarantee::HostTriggersProtected => upheld("read-only mounts, stand-ins"),
        Guarantee::NoNetwork => upheld("network namespace without an interface"),
        Guarantee::MemoryBounded => memory(facts),
        Guarantee::CpuBounded if runtime.kernel == Kernel::UserSpace => {
            Finding::never(guarantee, "gVisor's share of the CPU is not proven to be held")
        }
        Guarantee::CpuBounded => by_daemon(guarantee, facts, Held::Cpu),
        Guarantee::CpuTimeBounded => cpu_time(facts),
        Guarantee::ProcessesBounded if runtime.kernel == Kernel::UserSpace => Finding::never(
            guarantee,
            "a daemon counts gVisor's threads, not the programs inside",
        ),
        Guarantee::ProcessesBounded => by_daemon(guarantee, facts, Held::Pids),
        Guarantee::OpenFilesBounded => upheld("resource limit"),
        Guarantee::DiskBounded => disk(facts),
        Guarantee::NothingSurvives => upheld("process namespace"),
        Guarantee::NoNewPrivileges => upheld("no_new_privs, no capabilities"),
        Guarantee::SyscallsFiltered => syscalls(facts, runtime),
        Guarantee::UnprivilegedOnHost => identity(facts),
        Guarantee::WorkspaceDiskBounded => Finding::never(
            guarantee,
            "the workspace is a directory of the host, on which no quota is set",
        ),
        Guarantee::EgressOnlyThroughProxy => {
            upheld("network namespace without an interface, doors to the gateway")
        }
        Guarantee::HostKernelShielded => match runtime.kernel {
            Kernel::UserSpace => {
                Finding::upheld(guarantee, format!("gVisor ({})", runtime.name))
            }
            Kernel::Own => {
                Finding::upheld(guarantee, format!("virtual machine ({})", runtime.name))
            }
            Kernel::Hosts => shield(facts, guarantee),
        },
        Guarantee::OwnKernel => match runtime.kernel {
            Kernel::Own => {
                Finding::upheld(guarantee, format!("virtual machine ({})", runtime.name))
            }
            Kernel::Hosts | Kernel::UserSpace => own_kernel(facts, guarantee),
        },
        // The engine's promise, the same for every backend.
        Guarantee::OutputBounded => return None,
    })
}

/// Podman's own tmpfs has a size, and no number of files; only ours has both.
fn disk(facts: &Facts) -> Finding {
    let ours = || decide(caller(), facts).is_ok_and(Way::is_staged);
    match facts.product {
        Product::Podman if !ours() => Finding::missing(
            Guarantee::DiskBounded,
            "Podman does not bound how many files there are",
            "use --backend native, or a rootful Podman as root",
        ),
        Product::Docker | Product::Podman => {
            Finding::upheld(Guarantee::DiskBounded, "read-only root, sized tmpfs")
        }
    }
}

/// Only who is counted apart can be stopped in time.
fn cpu_time(facts: &Facts) -> Finding {
    let guarantee = Guarantee::CpuTimeBounded;
    match (facts.machine, &facts.identity, facts.cgroup.version) {
        (Machine::This, Identity::Rootless, 1) => Finding::missing(
            guarantee,
            "a rootless daemon counts nobody apart with cgroup v1",
            "boot with systemd.unified_cgroup_hierarchy=1, or use a rootful daemon",
        ),
        (Machine::This, _, _) => Finding::upheld(guarantee, "the daemon's cgroup"),
        (Machine::Other, _, _) => {
            Finding::never(guarantee, "what is counted on another machine is not seen in time")
        }
    }
}

fn memory(facts: &Facts) -> Finding {
    let guarantee = Guarantee::MemoryBounded;
    if facts.holds.contains(&Held::Memory) && !facts.holds.contains(&Held::Swap) {
        return Finding::missing(
            guarantee,
            "this daemon does not limit swap",
            "boot with swapaccount=1, or with systemd.unified_cgroup_hierarchy=1",
        );
    }
    by_daemon(guarantee, facts, Held::Memory)
}

fn by_daemon(guarantee: Guarantee, facts: &Facts, limit: Held) -> Finding {
    let what = match limit {
        Held::Memory => "memory",
        Held::Swap => "swap",
        Held::Pids => "processes",
        Held::Cpu => "CPU",
    };
    let version = facts.cgroup.version;
    if facts.holds.contains(&limit) {
        return Finding::upheld(guarantee, format!("cgroup v{version}, by the daemon"));
    }
    match (&facts.identity, version) {
        (Identity::Rootless, 1) => Finding::missing(
            guarantee,
            format!("a rootless daemon cannot limit {what} with cgroup v1"),
            "boot with systemd.unified_cgroup_hierarchy=1, or use a rootful daemon",
        ),
        (Identity::Rootless, _) => Finding::missing(
            guarantee,
            format!("no {what} controller is delegated to the rootless daemon"),
            "delegate it: systemctl edit user@.service with [Service] Delegate=cpu cpuset io memory pids",
        ),
        (Identity::Rootful | Identity::Remapped { .. }, _) => {
            Finding::never(guarantee, format!("this daemon says that it cannot limit {what}"))
        }
    }
}

fn syscalls(facts: &Facts, runtime: &Runtime) -> Finding {
    let guarantee = Guarantee::SyscallsFiltered;
    match (facts.seccomp, runtime.kernel) {
        (true, Kernel::Hosts) => Finding::upheld(guarantee, "seccomp"),
        (true, Kernel::UserSpace | Kernel::Own) => {
            Finding::upheld(guarantee, "seccomp of the kernel in between")
        }
        (false, _) => Finding::missing(
            guarantee,
            "this daemon was built or started without seccomp",
            "use one with seccomp: docker info shows `name=seccomp` under Security Options",
        ),
    }
}

fn identity(facts: &Facts) -> Finding {
    let by = match facts.identity {
        Identity::Rootful => "a user without rights",
        Identity::Remapped { .. } => "a user without rights, user namespace",
        Identity::Rootless => "a rootless daemon, your own user",
    };
    Finding::upheld(Guarantee::UnprivilegedOnHost, by)
}

fn shield(facts: &Facts, guarantee: Guarantee) -> Finding {
    let named = facts.runtimes.values().find(|it| it.kernel != Kernel::Hosts);
    let why = "programs share the host's kernel";
    match named {
        Some(runtime) => Finding::missing(
            guarantee,
            why,
            format!(
                "type: bulkhead run --backend {} --runtime {} …",
                facts.product.name(),
                runtime.name
            ),
        ),
        None => Finding::missing(
            guarantee,
            why,
            "install gVisor's `runsc` as a runtime of the daemon, then: --runtime runsc",
        ),
    }
}

fn own_kernel(facts: &Facts, guarantee: Guarantee) -> Finding {
    let why = "the sandbox has no kernel of its own";
    match facts.runtimes.values().find(|it| it.kernel == Kernel::Own) {
        Some(runtime) => Finding::missing(
            guarantee,
            why,
            format!(
                "type: bulkhead run --backend {} --runtime {} …",
                facts.product.name(),
                runtime.name
            ),
        ),
        None => Finding::missing(
            guarantee,
            why,
            "install Kata Containers as a runtime of the daemon, then: --runtime kata",
        ),
    }
}

#[cfg(test)]
mod tests;
