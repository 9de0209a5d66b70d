//! What this host lets the native backend promise.

use std::fs;

use bulkhead_linux::{
    cgroup::{Cgroups, Delegation, Feature, Layout, Version},
    landlock,
};
use bulkhead_spec::Guarantee;
use rustix::process::{Uid, getuid};

use crate::{Finding, identity::is_host_root};

/// What was found out about this host.
#[derive(Debug)]
pub(super) struct Host {
    root: bool,
    /// Why there are no user namespaces for us, and what would help.
    namespaces: Result<(), (String, String)>,
    landlock: u32,
    /// Why the service manager gave us no cgroup.
    refused: Option<String>,
}

impl Host {
    /// Looks at this host, on which somebody may have made the namespaces of a sandbox already.
    pub(super) fn probe(refused: Option<String>, namespaces: Namespaces) -> Self {
        let (root, landlock) = (is_host_root(), landlock::version());
        let namespaces = match namespaces {
            Namespaces::Made if root => Ok(()),
            Namespaces::Made => usable(),
            Namespaces::Untried => allowed(getuid()).and_then(|()| usable()),
        };
        Self { root, namespaces, landlock, refused }
    }
}

/// What is known of new namespaces before anybody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    /// They can be made: they were.
    Made,
    Untried,
}

/// A number that the kernel shows, if it shows it.
fn setting(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn refuse(why: &str, hint: &str) -> Result<(), (String, String)> {
    Err((why.to_owned(), hint.to_owned()))
}

/// Whether we may make user namespaces.
fn allowed(user: Uid) -> Result<(), (String, String)> {
    if setting("/proc/sys/user/max_user_namespaces") == Some(0) {
        return refuse(
            "user namespaces are switched off (user.max_user_namespaces is 0)",
            "type: sudo sysctl user.max_user_namespaces=15000",
        );
    }
    if !user.is_root() && setting("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return refuse(
            "user namespaces are for root only (kernel.unprivileged_userns_clone is 0)",
            "type: sudo sysctl kernel.unprivileged_userns_clone=1",
        );
    }
    Ok(())
}

/// Whether something can be done with those that we make.
fn usable() -> Result<(), (String, String)> {
    if getuid().is_root() {
        return Ok(());
    }
    let restricts =
        setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1);
    if restricts && is_unconfined(&profile()) {
        return refuse(
            "AppArmor takes the rights away that user namespaces give \
             (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "type: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bulkhead a \
             profile with `userns,`",
        );
    }
    Ok(())
}

/// The security profile that we run under, as `AppArmor` writes it.
fn profile() -> String {
    let path = |it: &str| fs::read_to_string(format!("/proc/self/attr/{it}"));
    path("apparmor/current").or_else(|_| path("current")).unwrap_or_default()
}

/// Whether nobody gave us a profile. One that restricts nothing itself reads `NAME (unconfined)`:
/// whoever wrote it did so to allow user namespaces, and if not, the first mount says so.
fn is_unconfined(profile: &str) -> bool {
    matches!(profile.trim_end_matches(['\0', '\n']), "" | "unconfined")
}

/// Each promise, in the order of [`Guarantee::ALL`].
pub(super) fn findings(host: &Host, cgroups: &Cgroups) -> Vec<Finding> {
    Guarantee::ALL.into_iter().filter_map(|it| finding(it, host, cgroups)).collect()
}

fn finding(guarantee: Guarantee, host: &Host, cgroups: &Cgroups) -> Option<Finding> {
    let walled = |by: &str| match &host.namespaces {
        Ok(()) => Finding::upheld(guarantee, by),
        Err((why, hint)) => Finding::missing(guarantee, why.clone(), hint.clone()),
    };
    let landlock = match host.landlock {
        0 => String::new(),
        version => format!(", landlock version {version}"),
    };
    let by_cgroup = |feature, what: &str| match &host.namespaces {
        Ok(()) => by_cgroup(guarantee, host, cgroups, feature, what),
        Err((why, hint)) => Finding::missing(guarantee, why.clone(), hint.clone()),
    };
    Some(match guarantee {
        Guarantee::HostFilesHidden => walled("mount namespace, root from an allow-list"),
        Guarantee::WorkspaceOnlyWritable => walled(&format!("read-only mounts{landlock}")),
        Guarantee::HostTriggersProtected => walled("read-only mounts, stand-ins"),
        Guarantee::NoNetwork => walled("network namespace"),
        Guarantee::MemoryBounded => by_cgroup(Feature::Memory, "memory"),
        Guarantee::CpuBounded => by_cgroup(Feature::Cpu, "CPU"),
        Guarantee::CpuTimeBounded => by_cgroup(Feature::CpuTime, "CPU time"),
        Guarantee::ProcessesBounded if host.root => by_cgroup(Feature::Processes, "processes"),
        Guarantee::ProcessesBounded => walled("process limit of the user namespace"),
        Guarantee::OpenFilesBounded => walled("resource limit"),
        Guarantee::DiskBounded => walled("sized tmpfs"),
        Guarantee::NothingSurvives => walled("process namespace"),
        Guarantee::NoNewPrivileges => walled("no_new_privs, empty capability sets"),
        Guarantee::SyscallsFiltered => walled("seccomp"),
        Guarantee::UnprivilegedOnHost if host.root => {
            walled("user namespace, a user of its own")
        }
        Guarantee::UnprivilegedOnHost => walled("user namespace, your own user"),
        Guarantee::WorkspaceDiskBounded => Finding::never(
            guarantee,
            "the workspace is a directory of the host, on which no quota is set",
        ),
        Guarantee::EgressOnlyThroughProxy => {
            walled("network namespace in which every address is the gateway's")
        }
        Guarantee::HostKernelShielded | Guarantee::OwnKernel => {
            Finding::never(guarantee, "programs share the host's kernel")
        }
        // The engine's promise, the same for every backend.
        Guarantee::OutputBounded => return None,
    })
}

fn by_cgroup(
    guarantee: Guarantee,
    host: &Host,
    cgroups: &Cgroups,
    feature: Feature,
    what: &str,
) -> Finding {
    match cgroups.holds(feature) {
        Some(Version::V1) => return Finding::upheld(guarantee, "cgroup v1"),
        Some(Version::V2) => return Finding::upheld(guarantee, "cgroup v2"),
        None => {}
    }
    if let Some(refused) = &host.refused {
        return Finding::missing(
            guarantee,
            format!("the service manager gave no cgroup: {refused}"),
            "run it in a login session, or as root",
        );
    }
    match (cgroups.layout(), cgroups.delegation()) {
        (Layout::Absent, _) => Finding::never(guarantee, "no cgroups are mounted"),
        (Layout::V1 | Layout::Hybrid, _) if !host.root => Finding::missing(
            guarantee,
            format!("cgroup v1 lets only root limit {what}"),
            "run as root, or boot with systemd.unified_cgroup_hierarchy=1",
        ),
        (Layout::V2, Delegation::None) => Finding::missing(
            guarantee,
            format!("no cgroup with a {what} controller is delegated to this user"),
            "start it with: systemd-run --user --scope -p Delegate=yes bulkhead …",
        ),
        (Layout::V1 | Layout::V2 | Layout::Hybrid, _) => {
            Finding::never(guarantee, format!("the cgroups here have no {what} controller"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_unconfined;

    #[test]
    fn a_profile_of_our_own_lifts_the_restriction() {
        assert!(is_unconfined("unconfined\n"));
        assert!(is_unconfined(""));
        assert!(!is_unconfined("bulkhead (unconfined)\n"));
        assert!(!is_unconfined("bulkhead (enforce)\0"));
    }
}
