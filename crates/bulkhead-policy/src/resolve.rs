//! From what was asked to what is allowed.

pub(crate) mod guarantees_of;
pub(crate) mod limits;
mod mounts;

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use bulkhead_spec::{
    Guarantee::{
        EgressOnlyThroughProxy, HostFilesHidden, HostTriggersProtected, NoNetwork,
        NoNewPrivileges, NothingSurvives, SyscallsFiltered, UnprivilegedOnHost,
        WorkspaceOnlyWritable,
    },
    Guarantees, GuestPath, Network, Root, Spec, Walls,
};

use crate::{Denial, Disk, Plan, Policy};

/// Each port is a socket of every sandbox.
const MOST_PORTS: usize = 64;

type Variables = BTreeMap<OsString, OsString>;

/// Decides what a sandbox gets.
///
/// The plan is total: whatever the spec left open, the policy has filled in.
pub fn resolve(spec: Spec, policy: &Policy) -> Result<Plan, Denial> {
    let limits = limits::resolve(spec.limits, policy)?;
    mounts::check(&spec, policy)?;
    if policy.network < spec.network {
        return Err(Denial::Network { asked: spec.network, ceiling: policy.network });
    }
    let egress = crate::egress::resolve(spec.egress, spec.network, &policy.egress);
    if MOST_PORTS < egress.rules().ports().len() {
        return Err(Denial::Malformed("the rules name more than 64 ports"));
    }
    crate::admit::check_variables(&spec.env)?;
    crate::admit::check_variables(&spec.fallback_env)?;
    if spec.home_files.keys().any(|name| name.is_empty() || name.contains(['/', '\0'])) {
        return Err(Denial::Malformed("a file for the home directory has no plain name"));
    }

    let asked = guarantees_of::limits(&spec.limits.or(policy.ceiling));
    let walls = match spec.walls {
        Walls::Up => walls(spec.network),
        Walls::Waived => Guarantees::default(),
    };
    let require = spec.require | policy.require.clone() | walls | asked | rules(spec.network);
    let prefer = guarantees_of::limits(&limits).missing_from(&require);
    let (env, fallback) = environment(&spec.root, spec.env, spec.fallback_env);
    let home = match spec.home {
        Some(home) => home,
        None => GuestPath::try_from(PathBuf::from("/home/sandbox"))
            .map_err(|_| Denial::Malformed("the home directory is not a path"))?,
    };
    Ok(Plan {
        root: spec.root,
        workspace: spec.workspace,
        mounts: spec.mounts,
        tmpfs: spec.tmpfs,
        home,
        home_files: spec.home_files,
        notes: BTreeMap::new(),
        network: spec.network,
        egress,
        address: None,
        env,
        fallback,
        image: None,
        disk: Disk::default(),
        nameplate: None,
        syscalls: spec.syscalls,
        limits,
        require,
        prefer,
    })
}

/// The variables that are settled, and those that an image may still replace.
fn environment(root: &Root, env: Variables, mut fallback: Variables) -> (Variables, Variables) {
    match root {
        Root::Image(_) => (env, fallback),
        Root::Host | Root::Directory(_) => {
            fallback.extend(env);
            (fallback, Variables::new())
        }
    }
}

/// What every sandbox keeps unless its caller waived the walls by name.
fn walls(network: Network) -> Guarantees {
    let always = [
        HostFilesHidden,
        WorkspaceOnlyWritable,
        HostTriggersProtected,
        NothingSurvives,
        NoNewPrivileges,
        SyscallsFiltered,
        UnprivilegedOnHost,
    ];
    let silent = match network {
        Network::None => Some(NoNetwork),
        Network::Proxy | Network::Observe | Network::Open => None,
    };
    always.into_iter().chain(silent).collect()
}

/// Rules about the way out that nobody enforces are none, so they are insisted on even by those who
/// want no other wall.
fn rules(network: Network) -> Guarantees {
    let enforced = match network {
        Network::Proxy | Network::Observe => Some(EgressOnlyThroughProxy),
        Network::None | Network::Open => None,
    };
    enforced.into_iter().collect()
}
